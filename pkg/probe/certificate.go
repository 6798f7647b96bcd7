package probe

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// errCertificate is a server certificate that the policy does not accept.
var errCertificate = errors.New("server certificate is not valid")

// The results of checking a certificate chain that are no errors.
const (
	chainValid      = "valid"
	chainNotChecked = "not checked" // there is no CA to check it against
)

// CertificatePolicy says how the TLS methods judge a server's certificate. The
// zero policy takes any and reports what it saw.
type CertificatePolicy struct {
	Roots    *x509.CertPool // the CAs that count; nil checks no chain
	Required bool           // a certificate that is not valid ends the probe before the password is sent
}

// Certificate is what a server showed in its TLS handshake. The names are
// printable text of the server's; the zero Certificate is none.
type Certificate struct {
	Subject  string
	Issuer   string
	NotAfter time.Time // end of validity of the server's own certificate
	Chain    string    // "valid", "not checked", or what is wrong with it
}

// Seen tells whether there was a certificate at all.
func (c Certificate) Seen() bool { return !c.NotAfter.IsZero() }

// DaysLeft returns the days until the certificate expires, negative after it.
func (c Certificate) DaysLeft(now time.Time) float64 {
	return c.NotAfter.Sub(now).Hours() / 24
}

// check describes the certificate of a handshake, and refuses it if the policy
// says so. There is no host name to check: EAP has none.
func (p CertificatePolicy) check(state tls.ConnectionState, now time.Time) (Certificate, error) {
	if len(state.PeerCertificates) == 0 {
		return Certificate{}, fmt.Errorf("%w: there is none", errCertificate)
	}
	own := state.PeerCertificates[0]
	seen := Certificate{
		Subject:  printable([]byte(own.Subject.String())),
		Issuer:   printable([]byte(own.Issuer.String())),
		NotAfter: own.NotAfter.UTC(),
		Chain:    chainNotChecked,
	}
	if p.Roots != nil {
		seen.Chain = p.verify(state.PeerCertificates, now)
	}
	if p.Required && seen.Chain != chainValid {
		return seen, fmt.Errorf("%w: %s", errCertificate, seen.Chain)
	}
	return seen, nil
}

// verify returns the result of checking the chain that the server sent.
func (p CertificatePolicy) verify(chain []*x509.Certificate, now time.Time) string {
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: p.Roots, Intermediates: intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return printable([]byte(err.Error()))
	}
	return chainValid
}
