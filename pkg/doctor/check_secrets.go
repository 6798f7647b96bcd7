package doctor

const pageSecret = "https://docs.aws.amazon.com/secretsmanager/latest/userguide/retrieving-secrets.html"

func secretChecks() []Check {
	return []Check{
		{
			Name:  "secret",
			Looks: "Every secret that a server uses can be read, and is well-formed.",
			Why:   "The prober cannot probe without it.",
			Mend: `Store {"shared_secret": "...", "username": "...", "password": "..."}, from a file: ` +
				"aws secretsmanager put-secret-value --secret-id ID --secret-string file://secret.json",
			Source:   pageSecret,
			subjects: ofCredentials(checkSecret),
		},
		{
			Name:     "secret-length",
			Looks:    "The shared secret has 16 octets or more.",
			Why:      "A short one can be guessed offline from one packet.",
			Mend:     "Change it on the servers and in the secret; the prober tries both versions for a week (docs/probing.md)",
			Source:   "https://datatracker.ietf.org/doc/html/rfc2865#section-3",
			subjects: ofCredentials(checkSecretLength),
		},
	}
}

// ofCredentials makes a check of all credentials that were given to us.
func ofCredentials(look func(*Credential) []verdict) func(*Facts) []judged {
	return func(f *Facts) []judged {
		var list []judged
		for _, c := range f.Credentials {
			if !c.Unknown {
				list = append(list, judged{subject{name: "credentials " + c.Name}, look(c)})
			}
		}
		return list
	}
}

func checkSecret(c *Credential) []verdict {
	switch {
	case c.Err != nil:
		return []verdict{fail("%s", reason(c.Err))}
	case c.Needed && !c.Account:
		return []verdict{fail("username and password are missing, and a server's probe logs in")}
	}
	return []verdict{ok("can be read")}
}

func checkSecretLength(c *Credential) []verdict {
	switch {
	case c.Err != nil:
		return nil
	case c.Short:
		return []verdict{warn("the shared secret has less than %d octets", minSecret)}
	}
	return []verdict{ok("%d octets or more", minSecret)}
}
