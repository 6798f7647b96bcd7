package fleet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"radwitness/pkg/health"
)

const arn = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/g/0123456789abcdef"

// minimal is the shortest valid file. Tests edit it; its lines are counted from 1.
const minimal = `credentials:
  c: {env: C}
groups:
  - name: g
    credentials: c
    target_groups: [{arn: ` + arn + `}]
    servers:
      - {name: a, address: 10.0.0.1}
      - {name: b, address: 10.0.0.2}
`

// edit returns minimal with pairs of texts replaced.
func edit(pairs ...string) string {
	file := minimal
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(file, pairs[i]) {
			panic("minimal has no " + pairs[i])
		}
		file = strings.Replace(file, pairs[i], pairs[i+1], 1)
	}
	return file
}

// withDefaults returns minimal with a defaults section as its first line.
func withDefaults(flow string, pairs ...string) string {
	return "defaults: " + flow + "\n" + edit(pairs...)
}

func TestParseRefuses(t *testing.T) {
	second := strings.Replace(arn, "/g/", "/h/", 1)
	other := edit("name: g", "name: h", arn, second)
	otherGroup := other[strings.Index(other, "  - name: h"):]
	tests := []struct {
		name string
		file string
		want string // without the file's name, one error a line
	}{
		// The file as a whole.
		{"empty", "", "1: is empty"},
		{"comment only", "# nothing\n", "1: is empty"},
		{"syntax", "groups:\n\t- name: g\n", "2: not valid YAML: found character '\t' that cannot start any token"},
		{"unclosed bracket", "groups: [{name: g", "1: not valid YAML: could not find flow mapping end token '}'"},
		{"two documents", minimal + "---\n" + minimal, "1: holds more than one YAML document"},
		{"scalar", "hello", `1: must be a mapping, not "hello"`},
		{"list", "- a", "1: must be a mapping, not a list"},
		{"deep", strings.Repeat("[", 33), "1: not valid YAML: nested more than 32 levels deep"},
		{"large", strings.Repeat("#", maxFileSize+1), "1: is larger than 1048576 bytes"},
		{"binary", "\x00\x01\xff", `1: must be a mapping, not "\x00\x01�"`},
		{"nothing in it", "{}", "1: groups: is missing"},

		// Keys.
		{"unknown key", edit("name: g", "name: g\n    colour: red"),
			"5: groups[0].colour: unknown key; known here: name, mode, target_groups, prune, server_metrics, credentials, reconcile_interval, probe, health, fail_open, checks, servers"},
		{"mistyped key", withDefaults("{health: {holddown: 3s}}"),
			"1: defaults.health.holddown: unknown key (did you mean hold_down?); known here: failure_threshold, hold_down, hold_down_max"},
		{"key of another place", edit("name: a", "name: a, hold_down: 3s"),
			"8: groups[0].servers[0].hold_down: unknown key; known here: name, address, admin, credentials, checks, method, port, interval, fast_interval, attempt_timeout, attempts, healthy_on, failure_on, message_authenticator, nas_identifier, attributes, ca_file, require_valid_cert"},
		{"secret in the file", edit("{env: C}", "{env: C, shared_secret: hush}"),
			"2: credentials.c.shared_secret: unknown key; known here: secrets_manager, ssm, env"},
		{"odd key", edit("name: g", "name: g\n    \"a.b\\n[0]\": x"),
			`5: groups[0]["a.b\n[0]"]: unknown key; known here: name, mode, target_groups, prune, server_metrics, credentials, reconcile_interval, probe, health, fail_open, checks, servers`},
		{"number as a key", "1: 2\n" + minimal, "1: 1: unknown key; known here: defaults, credentials, groups, deploy"},
		{"duplicate key", edit("name: g", "name: g\n    name: h"), "5: groups[0].name: is given twice, first on line 4"},
		{"duplicate credentials", edit("groups:", "  c: {env: D}\ngroups:"), "3: credentials.c: is given twice, first on line 2"},
		{"missing keys", edit("{name: a, address: 10.0.0.1}", "{}"),
			"8: groups[0].servers[0].name: is missing\n8: groups[0].servers[0].address: is missing"},
		{"missing lists", "groups:\n  - name: g\n", "2: groups[0].target_groups: is missing\n2: groups[0].servers: is missing"},
		{"missing arn", edit("arn: "+arn, "port: 1"), "6: groups[0].target_groups[0].arn: is missing"},
		{"missing below", edit("name: g", "name: g\n    fail_open: {}"), "5: groups[0].fail_open.below: is missing"},

		// Types.
		{"no value", edit("name: g", "name: g\n    probe:"), "5: groups[0].probe: has no value: give it one or remove the key"},
		{"list for a mapping", edit("name: g", "name: g\n    probe: []"), "5: groups[0].probe: must be a mapping, not a list"},
		{"mapping for a list", edit("target_groups: [", "target_groups: ", "}]", "}"), "6: groups[0].target_groups: must be a list, not a mapping"},
		{"word for a list", withDefaults("{probe: {healthy_on: accept}}"), `1: defaults.probe.healthy_on: must be a list, not "accept"`},
		{"word for a server", edit("- {name: a, address: 10.0.0.1}", "- a"), `8: groups[0].servers[0]: must be a mapping, not "a"`},
		{"word for a group", "groups: [g]", `1: groups[0]: must be a mapping, not "g"`},
		{"word for a target group", edit("{arn: "+arn+"}", arn), `6: groups[0].target_groups[0]: must be a mapping, not "` + arn[:80] + `"...`},
		{"word for credentials", edit("{env: C}", "C"), `2: credentials.c: must be a mapping`},
		{"mapping for text", edit("name: g", "name: {g: h}"), "4: groups[0].name: must be text, not a mapping"},
		{"mapping for a duration", withDefaults("{probe: {interval: {s: 1}}}"), "1: defaults.probe.interval: must be a duration like 10s, not a mapping"},
		{"mapping for below", withDefaults("{fail_open: {below: {percent: 50}}}"), "1: defaults.fail_open.below: must be a number of servers or a percentage, not a mapping"},
		{"number for text", edit("name: g", "name: 007"), "4: groups[0].name: must be text: put 007 in quotes"},
		{"text for a number", edit("name: a", `name: a, port: "1812"`), `8: groups[0].servers[0].port: must be a whole number, not "1812"`},
		{"fraction for a number", edit("name: a", "name: a, attempts: 1.5"), `8: groups[0].servers[0].attempts: must be a whole number, not "1.5"`},
		{"octal number", edit("name: a", "name: a, port: 01812"), `8: groups[0].servers[0].port: must be a whole number, not "01812"`},
		{"hexadecimal number", edit("name: a", "name: a, port: 0x714"), `8: groups[0].servers[0].port: must be a whole number, not "0x714"`},
		{"word for a bool", edit("name: g", "name: g\n    prune: yes"), `5: groups[0].prune: must be true or false, not "yes"`},
		{"anchor", edit("name: g", "name: &n g"), "4: groups[0].name: YAML anchors, aliases and tags are not supported: repeat the value, or put it under defaults"},
		{"alias", edit("name: g", "name: *n"), "4: groups[0].name: YAML anchors, aliases and tags are not supported: repeat the value, or put it under defaults"},
		{"tag", edit("name: g", "name: !!str g"), "4: groups[0].name: YAML anchors, aliases and tags are not supported: repeat the value, or put it under defaults"},
		{"merge key", edit("{name: a", "{<<: {port: 1}, name: a"), `8: groups[0].servers[0]["<<"]: YAML merge keys are not supported: repeat the values, or put them under defaults`},

		// Durations.
		{"bare number", withDefaults("{probe: {interval: 30}}"), "1: defaults.probe.interval: 30 has no unit: write 30s, 30ms or the like"},
		{"bare fraction", withDefaults("{probe: {interval: 1.5}}"), "1: defaults.probe.interval: 1.5 has no unit: write 1.5s, 1.5ms or the like"},
		{"bare zero", edit("name: g", "name: g\n    health: {hold_down: 0}"), "5: groups[0].health.hold_down: 0 has no unit: write 0s, 0ms or the like"},
		{"words", withDefaults("{probe: {interval: 10 sec}}"), `1: defaults.probe.interval: "10 sec" is not a duration: write it like 500ms, 10s or 15m`},
		{"nothing", withDefaults(`{probe: {interval: ""}}`), `1: defaults.probe.interval: "" is not a duration: write it like 500ms, 10s or 15m`},

		// probe.
		{"method", edit("name: a", "name: a, method: eap"), `8: groups[0].servers[0].method: "eap" is not one of pap, chap, mschapv2, status-server, accounting, eap-md5, peap-mschapv2, eap-ttls-pap`},
		{"port 0", edit("name: a", "name: a, port: 0"), "8: groups[0].servers[0].port: must be 1 to 65535, not 0"},
		{"port 65536", edit("name: a", "name: a, port: 65536"), "8: groups[0].servers[0].port: must be 1 to 65535, not 65536"},
		{"interval below", withDefaults("{probe: {interval: 999ms}}"), "1: defaults.probe.interval: must be 1s to 1m, not 999ms"},
		{"interval above", withDefaults("{probe: {interval: 2m}}"), "1: defaults.probe.interval: must be 1s to 1m, not 2m"},
		{"interval no divisor", withDefaults("{probe: {interval: 7s}}"), "1: defaults.probe.interval: must divide 60s evenly, like 5s, 10s, 15s or 20s; 7s does not"},
		{"fast_interval below", withDefaults("{probe: {fast_interval: 99ms}}"), "1: defaults.probe.fast_interval: must be 100ms to 1m, not 99ms"},
		{"fast_interval above interval", withDefaults("{probe: {fast_interval: 10001ms}}"), "1: defaults.probe.fast_interval: fast_interval (10.001s) is longer than interval (10s)"},
		{"attempt_timeout below", withDefaults("{probe: {attempt_timeout: 9ms}}"), "1: defaults.probe.attempt_timeout: must be 10ms to 30s, not 9ms"},
		{"attempt_timeout above", withDefaults("{probe: {attempt_timeout: 31s}}"), "1: defaults.probe.attempt_timeout: must be 10ms to 30s, not 31s"},
		{"attempts 0", withDefaults("{probe: {attempts: 0}}"), "1: defaults.probe.attempts: must be 1 to 10, not 0"},
		{"attempts 11", withDefaults("{probe: {attempts: 11}}"), "1: defaults.probe.attempts: must be 1 to 10, not 11"},
		{"budget", edit("name: b", "name: b, interval: 2s"),
			"9: groups[0].servers[1].interval: interval (2s) is shorter than the probe can take: 3 attempts of 1s are 3s"},
		{"budget over layers", withDefaults("{probe: {interval: 5s}}", "name: b", "name: b, attempts: 6"),
			"10: groups[0].servers[1].attempts: interval (5s) is shorter than the probe can take: 6 attempts of 1s are 6s"},
		{"budget by a nanosecond", withDefaults("{probe: {interval: 3s, attempt_timeout: 1.000000001s}}"),
			"1: defaults.probe.interval: interval (3s) is shorter than the probe can take: 3 attempts of 1.000000001s are 3.000000003s"},
		{"two clashes", withDefaults("{probe: {interval: 1s, fast_interval: 2s}}"),
			"1: defaults.probe.fast_interval: fast_interval (2s) is longer than interval (1s)\n" +
				"1: defaults.probe.interval: interval (1s) is shorter than the probe can take: 3 attempts of 1s are 3s"},
		{"bad value clashes with nothing", withDefaults("{probe: {interval: 1ms}}"), "1: defaults.probe.interval: must be 1s to 1m, not 1ms"},
		{"no healthy_on", withDefaults("{probe: {healthy_on: []}}"), "1: defaults.probe.healthy_on: needs at least one outcome, or no server ever comes up"},
		{"unknown outcome", withDefaults("{probe: {failure_on: [timeout, rejected]}}"),
			`1: defaults.probe.failure_on[1]: "rejected" is not one of accept, reject, challenge, timeout, refused, bad_authenticator, malformed, bad_certificate`},
		{"alive", withDefaults("{probe: {healthy_on: [alive]}}"), "1: defaults.probe.healthy_on[0]: alive is always a success and cannot be listed"},
		{"prober_error", withDefaults("{probe: {failure_on: [prober_error]}}"),
			"1: defaults.probe.failure_on[0]: prober_error is a fault of the prober, says nothing about the server, and cannot be listed"},
		{"outcome twice", withDefaults("{probe: {healthy_on: [accept, accept]}}"), "1: defaults.probe.healthy_on[1]: accept is listed twice"},
		{"outcome in both", edit("name: b", "name: b, healthy_on: [accept, reject]"),
			"9: groups[0].servers[1].healthy_on: reject is in both healthy_on and failure_on"},
		{"message_authenticator", edit("name: a", "name: a, message_authenticator: on"),
			`8: groups[0].servers[0].message_authenticator: "on" is not one of auto, required, off`},
		{"nas_identifier empty", edit("name: a", `name: a, nas_identifier: ""`), "8: groups[0].servers[0].nas_identifier: must be 1 to 253 bytes long, not 0"},
		{"nas_identifier long", edit("name: a", "name: a, nas_identifier: "+strings.Repeat("n", 254)),
			"8: groups[0].servers[0].nas_identifier: must be 1 to 253 bytes long, not 254"},

		// health.
		{"failure_threshold 0", withDefaults("{health: {failure_threshold: 0}}"), "1: defaults.health.failure_threshold: must be 1 to 100, not 0"},
		{"failure_threshold 101", withDefaults("{health: {failure_threshold: 101}}"), "1: defaults.health.failure_threshold: must be 1 to 100, not 101"},
		{"hold_down below", withDefaults("{health: {hold_down: -1s}}"), "1: defaults.health.hold_down: must be 0s to 24h, not -1s"},
		{"hold_down_max above", withDefaults("{health: {hold_down_max: 25h}}"), "1: defaults.health.hold_down_max: must be 0s to 24h, not 25h"},
		{"hold_down above hold_down_max", edit("name: g", "name: g\n    health: {hold_down: 901s}"),
			"5: groups[0].health.hold_down: hold_down_max (15m) is less than hold_down (15m1s)"},

		// fail_open.
		{"below 0", edit("name: g", "name: g\n    fail_open: {below: 0}"), "5: groups[0].fail_open.below: must be at least 1; to fail closed, write fail_open: off"},
		{"below negative", edit("name: g", "name: g\n    fail_open: {below: -1}"), "5: groups[0].fail_open.below: must be at least 1; to fail closed, write fail_open: off"},
		{"below 0%", edit("name: g", "name: g\n    fail_open: {below: 0%}"), "5: groups[0].fail_open.below: must be at least 1; to fail closed, write fail_open: off"},
		{"below 101%", edit("name: g", "name: g\n    fail_open: {below: 101%}"), "5: groups[0].fail_open.below: cannot be more than 100%"},
		{"below word", edit("name: g", "name: g\n    fail_open: {below: half}"),
			`5: groups[0].fail_open.below: "half" is neither a number of servers like 1, a percentage like "50%", nor off`},
		{"below the group's size", edit("name: g", "name: g\n    fail_open: {below: 3}"),
			`5: groups[0].fail_open.below: fail_open below 3 is more than the servers of group "g" that are not admin out (2)`},
		{"below with admin out", withDefaults("{fail_open: {below: 2}}", "name: a", "name: a, admin: out"),
			`1: defaults.fail_open.below: fail_open below 2 is more than the servers of group "g" that are not admin out (1)`},
		{"all admin out", edit("name: a", "name: a, admin: out", "name: b", "name: b, admin: out"),
			`4: groups[0]: fail_open below 1 is more than the servers of group "g" that are not admin out (0)`},
		{"percentage of none", edit("name: g", "name: g\n    fail_open: {below: 50%}", "name: a", "name: a, admin: out", "name: b", "name: b, admin: out"),
			`5: groups[0].fail_open.below: fail_open below 1 is more than the servers of group "g" that are not admin out (0)`},
		{"fail_open word", edit("name: g", "name: g\n    fail_open: on"), `5: groups[0].fail_open: must be {below: N}, {below: "N%"} or off`},
		{"fail_open true", edit("name: g", "name: g\n    fail_open: true"), `5: groups[0].fail_open: must be {below: N}, {below: "N%"} or off`},
		{"fail_open number", edit("name: g", "name: g\n    fail_open: 1"), `5: groups[0].fail_open: must be {below: N}, {below: "N%"} or off`},

		// credentials.
		{"no source", edit("{env: C}", "{}"), "2: credentials.c: needs exactly one of secrets_manager, ssm and env"},
		{"two sources", edit("{env: C}", "{env: C, ssm: /c}"), "2: credentials.c: needs exactly one of secrets_manager, ssm and env"},
		{"secret", edit("{env: C}", "{secrets_manager: hush hush}"),
			"2: credentials.c.secrets_manager: is neither the ARN nor the name of a secret (arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME)"},
		{"secret of another service", edit("{env: C}", "{secrets_manager: 'arn:aws:ssm:eu-central-1:123456789012:secret:c'}"),
			"2: credentials.c.secrets_manager: is neither the ARN nor the name of a secret (arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME)"},
		{"parameter", edit("{env: C}", "{ssm: /a//b}"), "2: credentials.c.ssm: is neither the name nor the ARN of an SSM parameter"},
		{"env", edit("{env: C}", "{env: 1C}"), "2: credentials.c.env: cannot begin the name of an environment variable"},
		{"env of overrides", edit("{env: C}", "{env: RADWITNESS}"), "2: credentials.c.env: must not begin with RADWITNESS_: such variables override this file"},
		{"name of credentials", edit("  c: {", "  c/d: {env: D}\n  c: {"),
			`2: credentials["c/d"]: "c/d" is not a name: use 1 to 64 letters, digits, dots, underscores and hyphens`},
		{"unknown credentials", edit("credentials: c", "credentials: cc"), `5: groups[0].credentials: "cc" is not a name under credentials`},
		{"mistyped credentials", edit("c: {env", "corp: {env", "credentials: c", "credentials: crop"),
			`5: groups[0].credentials: "crop" is not a name under credentials (did you mean corp?)`},
		{"unknown credentials of a server", edit("name: b", "name: b, credentials: d"), `9: groups[0].servers[1].credentials: "d" is not a name under credentials`},
		{"no credentials", edit("    credentials: c\n", "", "name: a", "name: a, credentials: c"),
			"4: groups[0].credentials: is missing, and not every server names its own"},

		// groups, target groups, servers.
		{"no groups", "groups: []", "1: groups: needs at least one group"},
		{"no servers", edit("servers:\n", "servers: []\n", "      - {name: a, address: 10.0.0.1}\n", "", "      - {name: b, address: 10.0.0.2}\n", ""),
			"7: groups[0].servers: needs at least one server"},
		{"no target groups", edit("[{arn: "+arn+"}]", "[]"), "6: groups[0].target_groups: needs at least one target group"},
		{"group name", edit("name: g", "name: g/h"), `4: groups[0].name: "g/h" is not a name: use 1 to 64 letters, digits, dots, underscores and hyphens`},
		{"empty name", edit("name: g", `name: ""`), `4: groups[0].name: "" is not a name: use 1 to 64 letters, digits, dots, underscores and hyphens`},
		{"long name", edit("name: g", "name: "+strings.Repeat("g", 65)),
			`4: groups[0].name: "` + strings.Repeat("g", 65) + `" is not a name: use 1 to 64 letters, digits, dots, underscores and hyphens`},
		{"server name", edit("name: a", `name: "a#b"`), `8: groups[0].servers[0].name: "a#b" is not a name: use 1 to 64 letters, digits, dots, underscores and hyphens`},
		{"same group name", minimal + strings.Replace(otherGroup, "name: h", "name: g", 1), "10: groups[1].name: g is already the name of groups[0] on line 4"},
		{"same server name", edit("name: b", "name: a"), "9: groups[0].servers[1].name: a is already the name of groups[0].servers[0] on line 8"},
		{"mode", edit("name: g", "name: g\n    mode: dry-run"), `5: groups[0].mode: "dry-run" is not one of enforce, observe`},
		{"admin", edit("name: a", "name: a, admin: in"), `8: groups[0].servers[0].admin: "in" is not one of auto, out`},
		{"reconcile_interval below", edit("name: g", "name: g\n    reconcile_interval: 0s"), "5: groups[0].reconcile_interval: must be 1s to 15m, not 0s"},
		{"reconcile_interval above", edit("name: g", "name: g\n    reconcile_interval: 16m"), "5: groups[0].reconcile_interval: must be 1s to 15m, not 16m"},
		{"target group ARN", edit(arn, "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/g/1"),
			`6: groups[0].target_groups[0].arn: "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/g/1" is not the ARN of a target group (arn:aws:elasticloadbalancing:REGION:ACCOUNT:targetgroup/NAME/ID)`},
		{"target group port", edit("arn: ", "port: 0, arn: "), "6: groups[0].target_groups[0].port: must be 1 to 65535, not 0"},
		{"same target group", edit("}]", "}, {port: 1813, arn: "+arn+"}]"), "6: groups[0].target_groups[1].arn: is already the target group of groups[0].target_groups[0] on line 6"},
		{"same target group in two groups", minimal + strings.Replace(otherGroup, second, arn, 1),
			"12: groups[1].target_groups[0].arn: is already the target group of groups[0].target_groups[0] on line 6"},
		{"host name", edit("10.0.0.1", "ise-1.example.net"),
			`8: groups[0].servers[0].address: "ise-1.example.net" is not an IP address; host names are not allowed, a health check must not depend on DNS`},
		{"network", edit("10.0.0.1", "10.0.0.0/24"),
			`8: groups[0].servers[0].address: "10.0.0.0/24" is not an IP address; host names are not allowed, a health check must not depend on DNS`},
		{"address and port", edit("10.0.0.1", `"10.0.0.1:1812"`), `8: groups[0].servers[0].address: "10.0.0.1:1812" has a port: put it under the key port`},
		{"zone", edit("10.0.0.1", "fe80::1%eth0"), `8: groups[0].servers[0].address: "fe80::1%eth0" has a zone, which means something on one machine only`},
		{"unspecified", edit("10.0.0.1", `"::"`), "8: groups[0].servers[0].address: :: is not the address of a server"},
		{"multicast", edit("10.0.0.1", "::ffff:224.0.0.1"), "8: groups[0].servers[0].address: ::ffff:224.0.0.1 is not the address of a server"},
		{"same address", edit("10.0.0.2", "::ffff:10.0.0.1"), "9: groups[0].servers[1].address: 10.0.0.1 is already the address of groups[0].servers[0] on line 8"},

		// All at once, by line; a default that fits no server is told once.
		{"many", withDefaults("{probe: {interval: 2s}}", "{env: C}", "{env: C, ssm: /c}", "name: b", "name: b, port: 0, admin: x"),
			"1: defaults.probe.interval: interval (2s) is shorter than the probe can take: 3 attempts of 1s are 3s\n" +
				"3: credentials.c: needs exactly one of secrets_manager, ssm and env\n" +
				"10: groups[0].servers[1].port: must be 1 to 65535, not 0\n" +
				`10: groups[0].servers[1].admin: "x" is not one of auto, out`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(test.file), nil)
			if err == nil {
				t.Fatal("no error")
			}
			want := "f.yaml:" + strings.ReplaceAll(test.want, "\n", "\nf.yaml:")
			if err.Error() != want {
				t.Errorf("got\n%v\nwant\n%s", err, want)
			}
		})
	}
}

func TestParseDefaults(t *testing.T) {
	f, err := Parse("fleet.yaml", []byte(minimal), nil)
	if err != nil {
		t.Fatal(err)
	}
	probe := Probe{
		Row: "a", Method: PAP, Port: 1812, Interval: 10 * time.Second, FastInterval: time.Second,
		AttemptTimeout: time.Second, Attempts: 3,
		Criteria: health.Criteria{
			HealthyOn: []health.Outcome{"accept"},
			FailureOn: []health.Outcome{"reject", "challenge", "timeout", "refused", "bad_authenticator", "malformed", "bad_certificate"},
		},
		MessageAuthenticator: MessageAuthenticatorAuto, NASIdentifier: "radwitness",
	}
	probeOfB := probe
	probeOfB.Row = "b"
	want := &Fleet{
		Version:     f.Version,
		Credentials: map[string]Credential{"c": {Env: "C"}},
		Groups: []Group{{
			Name: "g", Mode: Enforce, TargetGroups: []TargetGroup{{ARN: arn}},
			ReconcileInterval: 30 * time.Second, Below: 1,
			Health: health.Policy{FailureThreshold: 3, HoldDown: 2 * time.Minute, HoldDownMax: 15 * time.Minute},
			Servers: []Server{
				{Name: "a", Address: netip.MustParseAddr("10.0.0.1"), Admin: AdminAuto, Credential: "c", Checks: []Probe{probe}},
				{Name: "b", Address: netip.MustParseAddr("10.0.0.2"), Admin: AdminAuto, Credential: "c", Checks: []Probe{probeOfB}},
			},
		}},
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
}

func TestParseInherits(t *testing.T) {
	f := mustParse(t, withDefaults("{probe: {attempts: 2, nas_identifier: d, interval: 20s}, health: {hold_down: 1s, failure_threshold: 5}, fail_open: off}",
		"name: g", "name: g\n    probe: {nas_identifier: g, interval: 30s}\n    health: {hold_down: 2s}",
		"name: b", "name: b, interval: 60s, credentials: c, healthy_on: [accept, challenge], failure_on: [timeout]"))
	g := f.Groups[0]
	if want := (health.Policy{FailureThreshold: 5, HoldDown: 2 * time.Second, HoldDownMax: 15 * time.Minute}); g.Health != want {
		t.Errorf("health is %+v, want %+v", g.Health, want)
	}
	if g.Below != 0 {
		t.Errorf("below is %d, want 0", g.Below)
	}
	for _, test := range []struct {
		probe    Probe
		interval time.Duration
		healthy  string
	}{
		{g.Servers[0].Checks[0], 30 * time.Second, "[accept]"},
		{g.Servers[1].Checks[0], time.Minute, "[accept challenge]"},
	} {
		if p := test.probe; p.Attempts != 2 || p.NASIdentifier != "g" || p.Interval != test.interval || fmt.Sprint(p.Criteria.HealthyOn) != test.healthy {
			t.Errorf("got %+v, want interval %s and healthy_on %s", p, test.interval, test.healthy)
		}
	}
}

func TestParsePort(t *testing.T) {
	tests := []struct {
		name string
		file string
		env  []string
		want uint16
	}{
		{"default", minimal, nil, 1812},
		{"accounting", edit("name: a", "name: a, method: accounting"), nil, 1813},
		{"accounting in the group", edit("name: g", "name: g\n    probe: {method: accounting}"), nil, 1813},
		{"accounting in the environment", minimal, []string{"RADWITNESS_PROBE_METHOD=accounting"}, 1813},
		{"given for accounting", withDefaults("{probe: {port: 1812}}", "name: a", "name: a, method: accounting"), nil, 1812},
		{"highest", edit("name: a", "name: a, port: 65535"), nil, 65535},
		{"lowest", edit("name: a", "name: a, port: 1"), nil, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := mustParse(t, test.file, test.env...).Groups[0].Servers[0].Checks[0].Port; got != test.want {
				t.Errorf("port is %d, want %d", got, test.want)
			}
		})
	}
}

func TestParseFailOpen(t *testing.T) {
	tests := []struct {
		failOpen string
		servers  int
		out      int // of the servers, admin out
		want     int
	}{
		{"off", 3, 0, 0},
		{"false", 3, 0, 0},
		{"'off'", 3, 0, 0},
		{"{below: off}", 3, 0, 0},
		{"off", 3, 3, 0},
		{"{below: 1}", 3, 0, 1},
		{"{below: 3}", 3, 0, 3},
		{"{below: '2'}", 3, 0, 2},
		{"{below: 1%}", 3, 0, 1},
		{"{below: 33%}", 3, 0, 1},
		{"{below: 34%}", 3, 0, 2},
		{"{below: '50%'}", 4, 0, 2},
		{"{below: 50%}", 5, 0, 3},
		{"{below: 50%}", 5, 1, 2},
		{"{below: 100%}", 5, 2, 3},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s of %d-%d", test.failOpen, test.servers, test.out), func(t *testing.T) {
			file, _, _ := strings.Cut(edit("name: g", "name: g\n    fail_open: "+test.failOpen), "      - {")
			for i := range test.servers {
				admin := AdminAuto
				if i < test.out {
					admin = AdminOut
				}
				file += fmt.Sprintf("      - {name: s%d, address: 10.0.0.%d, admin: %s}\n", i, i+1, admin)
			}
			if got := mustParse(t, file).Groups[0].Below; got != test.want {
				t.Errorf("below is %d, want %d", got, test.want)
			}
		})
	}
}

func TestParseAcceptsTheEdges(t *testing.T) {
	files := map[string]string{
		"budget is the interval":      withDefaults("{probe: {interval: 3s}}"),
		"fast_interval is interval":   withDefaults("{probe: {fast_interval: 10s}}"),
		"shortest":                    withDefaults("{probe: {interval: 1s, fast_interval: 100ms, attempt_timeout: 10ms, attempts: 10}}"),
		"longest":                     withDefaults("{probe: {interval: 60s, fast_interval: 60s, attempt_timeout: 30s, attempts: 2}}"),
		"thresholds":                  withDefaults("{health: {failure_threshold: 100, hold_down: 24h, hold_down_max: 24h}}"),
		"no hold-down":                withDefaults("{health: {failure_threshold: 1, hold_down: 0s, hold_down_max: 0s}}"),
		"reconcile_interval":          edit("name: g", "name: g\n    reconcile_interval: 15m"),
		"nas_identifier":              edit("name: a", "name: a, nas_identifier: "+strings.Repeat("n", 253)),
		"names":                       edit("name: g", "name: "+strings.Repeat("g", 64), "name: a", "name: a.B_c-1"),
		"digits as a name":            edit("name: g", `name: "007"`),
		"dots in a credential's name": edit("c: {", "corp.eu: {", "credentials: c", "credentials: corp.eu"),
		"IPv6":                        edit("10.0.0.1", "2001:db8::1"),
		"loopback":                    edit("10.0.0.1", "127.0.0.1"),
		"China":                       edit(arn, "arn:aws-cn:elasticloadbalancing:cn-north-1:123456789012:targetgroup/g/1"),
		"secret by name":              edit("{env: C}", "{secrets_manager: radius/corp}"),
		"secret by ARN":               edit("{env: C}", "{secrets_manager: arn:aws:secretsmanager:eu-central-1:123456789012:secret:radius/corp-AbCdEf}"),
		"parameter by name":           edit("{env: C}", "{ssm: radius.corp}"),
		"parameter by ARN":            edit("{env: C}", "{ssm: arn:aws:ssm:eu-central-1:123456789012:parameter/radius/corp}"),
		"unused credentials":          edit("groups:", "  d: {ssm: /d}\ngroups:"),
		"own credentials only":        edit("    credentials: c\n", "", "name: a", "name: a, credentials: c", "name: b", "name: b, credentials: c"),
		"byte order mark":             "\ufeff" + minimal,
		"Windows line ends":           strings.ReplaceAll(minimal, "\n", "\r\n"),
		"folded text":                 edit("name: g", "name: >-\n      g"),
		"document start":              "---\n" + minimal,
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) { mustParse(t, file) })
	}
}

func TestParseUnmapsAddresses(t *testing.T) {
	f := mustParse(t, edit("10.0.0.1", "::ffff:10.0.0.9"))
	if got := f.Groups[0].Servers[0].Address; got != netip.MustParseAddr("10.0.0.9") {
		t.Errorf("address is %v", got)
	}
}

func TestEnvironmentWins(t *testing.T) {
	file := withDefaults("{probe: {interval: 20s}, health: {hold_down: 1s}}",
		"name: g", "name: g\n    mode: enforce\n    reconcile_interval: 1s\n    fail_open: off\n    probe: {interval: 30s}\n    health: {hold_down: 2s}",
		"name: a", "name: a, method: chap, port: 1, interval: 60s, fast_interval: 2s, attempt_timeout: 3s, attempts: 1, message_authenticator: off, nas_identifier: x")
	f := mustParse(t, file,
		"PATH=/bin",
		"RADWITNESS_FLEET=other.yaml", "RADWITNESS_PROBES_TABLE=p", "RADWITNESS_HEALTH_TABLE=h", "RADWITNESS_LOG_LEVEL=debug",
		"RADWITNESS_PROBE_METHOD=status-server", "RADWITNESS_PROBE_PORT=3799", "RADWITNESS_PROBE_INTERVAL=15s",
		"RADWITNESS_PROBE_FAST_INTERVAL=500ms", "RADWITNESS_PROBE_ATTEMPT_TIMEOUT=2s", "RADWITNESS_PROBE_ATTEMPTS=5",
		"RADWITNESS_PROBE_MESSAGE_AUTHENTICATOR=required", "RADWITNESS_PROBE_NAS_IDENTIFIER=a=b",
		"RADWITNESS_HEALTH_FAILURE_THRESHOLD=7", "RADWITNESS_HEALTH_HOLD_DOWN=3s", "RADWITNESS_HEALTH_HOLD_DOWN_MAX=4s",
		"RADWITNESS_FAIL_OPEN_BELOW=50%", "RADWITNESS_MODE=observe", "RADWITNESS_RECONCILE_INTERVAL=5m",
	)
	g := f.Groups[0]
	for _, s := range g.Servers {
		want := Probe{
			Row: s.Name, Method: StatusServer, Port: 3799, Interval: 15 * time.Second, FastInterval: 500 * time.Millisecond,
			AttemptTimeout: 2 * time.Second, Attempts: 5, Criteria: s.Checks[0].Criteria,
			MessageAuthenticator: MessageAuthenticatorRequired, NASIdentifier: "a=b",
		}
		if !reflect.DeepEqual(s.Checks[0], want) {
			t.Errorf("probe of %s is %+v, want %+v", s.Name, s.Checks[0], want)
		}
	}
	if want := (health.Policy{FailureThreshold: 7, HoldDown: 3 * time.Second, HoldDownMax: 4 * time.Second}); g.Health != want {
		t.Errorf("health is %+v, want %+v", g.Health, want)
	}
	if g.Below != 1 || g.Mode != Observe || g.ReconcileInterval != 5*time.Minute {
		t.Errorf("below %d, mode %s, reconcile_interval %s", g.Below, g.Mode, g.ReconcileInterval)
	}
	if g := mustParse(t, minimal, "RADWITNESS_FAIL_OPEN_BELOW=off").Groups[0]; g.Below != 0 {
		t.Errorf("below is %d, want 0", g.Below)
	}
}

func TestParseRefusesVariables(t *testing.T) {
	const known = "known are RADWITNESS_FAIL_OPEN_BELOW, RADWITNESS_HEALTH_FAILURE_THRESHOLD, RADWITNESS_HEALTH_HOLD_DOWN, " +
		"RADWITNESS_HEALTH_HOLD_DOWN_MAX, RADWITNESS_MODE, RADWITNESS_PROBE_ATTEMPTS, RADWITNESS_PROBE_ATTEMPT_TIMEOUT, RADWITNESS_PROBE_CA_FILE, " +
		"RADWITNESS_PROBE_FAST_INTERVAL, RADWITNESS_PROBE_INTERVAL, RADWITNESS_PROBE_MESSAGE_AUTHENTICATOR, RADWITNESS_PROBE_METHOD, " +
		"RADWITNESS_PROBE_NAS_IDENTIFIER, RADWITNESS_PROBE_PORT, RADWITNESS_PROBE_REQUIRE_VALID_CERT, RADWITNESS_RECONCILE_INTERVAL"
	tests := []struct {
		variable string
		want     string
	}{
		{"RADWITNESS_COLOUR=red", "RADWITNESS_COLOUR: unknown variable; " + known},
		{"RADWITNESS_PROBE_INTERVALL=5s", "RADWITNESS_PROBE_INTERVALL: unknown variable (did you mean RADWITNESS_PROBE_INTERVAL?); " + known},
		{"RADWITNESS_PROBE_HEALTHY_ON=accept", "RADWITNESS_PROBE_HEALTHY_ON: unknown variable; " + known},
		{"RADWITNESS_PROBE_INTERVAL=5", "RADWITNESS_PROBE_INTERVAL: 5 has no unit: write 5s, 5ms or the like"},
		{"RADWITNESS_PROBE_INTERVAL=", `RADWITNESS_PROBE_INTERVAL: "" is not a duration: write it like 500ms, 10s or 15m`},
		{"RADWITNESS_PROBE_INTERVAL=7s", "RADWITNESS_PROBE_INTERVAL: must divide 60s evenly, like 5s, 10s, 15s or 20s; 7s does not"},
		{"RADWITNESS_PROBE_INTERVAL=2s", "RADWITNESS_PROBE_INTERVAL: interval (2s) is shorter than the probe can take: 3 attempts of 1s are 3s"},
		{"RADWITNESS_PROBE_PORT=radius", `RADWITNESS_PROBE_PORT: must be a whole number, not "radius"`},
		{"RADWITNESS_PROBE_PORT=0", "RADWITNESS_PROBE_PORT: must be 1 to 65535, not 0"},
		{"RADWITNESS_PROBE_METHOD=eap", `RADWITNESS_PROBE_METHOD: "eap" is not one of pap, chap, mschapv2, status-server, accounting, eap-md5, peap-mschapv2, eap-ttls-pap`},
		{"RADWITNESS_HEALTH_HOLD_DOWN=20m", "RADWITNESS_HEALTH_HOLD_DOWN: hold_down_max (15m) is less than hold_down (20m)"},
		{"RADWITNESS_FAIL_OPEN_BELOW=3", `RADWITNESS_FAIL_OPEN_BELOW: fail_open below 3 is more than the servers of group "g" that are not admin out (2)`},
		{"RADWITNESS_FAIL_OPEN_BELOW=0", "RADWITNESS_FAIL_OPEN_BELOW: must be at least 1; to fail closed, write fail_open: off"},
		{"RADWITNESS_MODE=dry-run", `RADWITNESS_MODE: "dry-run" is not one of enforce, observe`},
		{"RADWITNESS_RECONCILE_INTERVAL=1h", "RADWITNESS_RECONCILE_INTERVAL: must be 1s to 15m, not 1h"},
	}
	for _, test := range tests {
		t.Run(test.variable, func(t *testing.T) {
			_, err := Parse("fleet.yaml", []byte(minimal), []string{test.variable})
			if err == nil || err.Error() != test.want {
				t.Errorf("got\n%v\nwant\n%s", err, test.want)
			}
		})
	}
}

func TestErrorsOfBothPlacesAreReported(t *testing.T) {
	_, err := Parse("fleet.yaml", []byte("groups: ["), []string{"RADWITNESS_MODE=x", "RADWITNESS_HEALTH_HOLD_DOWN=y"})
	var all Errors
	if !errors.As(err, &all) || len(all) != 3 {
		t.Fatalf("got %v, want three errors", err)
	}
	if all[0].Variable != "RADWITNESS_HEALTH_HOLD_DOWN" || all[1].Variable != "RADWITNESS_MODE" || all[2].Line != 1 {
		t.Errorf("order is wrong:\n%v", err)
	}
	var one *Error
	if !errors.As(err, &one) || one != all[0] {
		t.Errorf("errors.As found %v, want the first error", one)
	}
}

func TestVersion(t *testing.T) {
	version := func(file string, environ ...string) string { return mustParse(t, file, environ...).Version }
	plain := version(minimal)
	if len(plain) != 12 || strings.Trim(plain, "0123456789abcdef") != "" {
		t.Errorf("version %q is not 12 hex digits", plain)
	}
	if version(minimal, "HOME=/root", "RADWITNESS_LOG_LEVEL=debug") != plain {
		t.Error("variables that override nothing change the version")
	}
	observe := version(minimal, "RADWITNESS_MODE=observe", "RADWITNESS_PROBE_PORT=1")
	if observe != version(minimal, "RADWITNESS_PROBE_PORT=1", "RADWITNESS_MODE=observe") {
		t.Error("the order of variables changes the version")
	}
	if observe == plain || version(minimal+"#") == plain {
		t.Error("overrides or the file do not change the version")
	}
}

func TestLoad(t *testing.T) {
	f, err := Load(sampleFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Groups) != 1 || f.Groups[0].Below != 1 || len(f.Groups[0].Servers) != 3 {
		t.Errorf("the sample resolves to %+v", f)
	}

	_, err = Load(filepath.Join(t.TempDir(), "none.yaml"), nil)
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "reading the fleet file: ") {
		t.Errorf("got %v, want an error that the file does not exist", err)
	}

	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("x: y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = Load(bad, nil); err == nil || !strings.HasPrefix(err.Error(), bad+":1: x: unknown key") {
		t.Errorf("got %v, want an error that begins with the file and line", err)
	}
}

func TestLookups(t *testing.T) {
	f := mustParse(t, edit("name: b", "name: b, interval: 60s"))
	g, ok := f.Group("g")
	if !ok || g.Name != "g" {
		t.Errorf("group g is %q, %v", g.Name, ok)
	}
	if _, ok := f.Group("h"); ok {
		t.Error("there is a group h")
	}
	for name, want := range map[string]time.Duration{"a": time.Minute, "b": 3 * time.Minute} {
		s, ok := g.Server(name)
		if !ok || s.Name != name || s.Checks[0].StaleAfter() != want {
			t.Errorf("server %s is %q, %v, stale after %s, want %s", name, s.Name, ok, s.Checks[0].StaleAfter(), want)
		}
	}
	if _, ok := g.Server("c"); ok {
		t.Error("there is a server c")
	}
}

func TestThousandServersAreQuick(t *testing.T) {
	file, _, _ := strings.Cut(minimal, "      - {")
	var b strings.Builder
	b.WriteString(file)
	for i := range 1000 {
		fmt.Fprintf(&b, "      - {name: s%d, address: 10.0.%d.%d}\n", i, i/250, i%250+1)
	}
	start := time.Now()
	f := mustParse(t, b.String())
	if len(f.Groups[0].Servers) != 1000 {
		t.Errorf("got %d servers", len(f.Groups[0].Servers))
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

func FuzzParse(f *testing.F) {
	sample, err := os.ReadFile(sampleFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sample, "RADWITNESS_MODE=observe")
	f.Add([]byte(minimal), "RADWITNESS_PROBE_INTERVAL=1s")
	f.Add([]byte(edit("name: g", "name: g\n    fail_open: {below: 50%}")), "RADWITNESS_FAIL_OPEN_BELOW=100%")
	for _, seed := range []string{"", "a: &x [*x]", "? [a]\n: b", "<<: {a: b}", "groups:\n- - -\n", "groups: !!map {}", "%YAML 1.2\n---\n"} {
		f.Add([]byte(seed), "RADWITNESS_X")
	}
	f.Fuzz(func(t *testing.T, data []byte, variable string) {
		fleet, err := Parse("fleet.yaml", data, []string{variable})
		if (fleet == nil) == (err == nil) {
			t.Fatalf("got fleet %v and error %v", fleet, err)
		}
		var all Errors
		if err != nil && (!errors.As(err, &all) || len(all) == 0) {
			t.Fatalf("error %v is not of type Errors", err)
		}
		for _, e := range all {
			if e.Message == "" || (e.Line < 1) == (e.Variable == "") {
				t.Fatalf("error without a place: %#v", e)
			}
		}
	})
}

func mustParse(t *testing.T, file string, environ ...string) *Fleet {
	t.Helper()
	f, err := Parse("fleet.yaml", []byte(file), environ)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
