package health

import "slices"

// Outcome is the result of one RADIUS transaction, in the word that logs, rows
// and metrics use.
type Outcome string

// The outcomes of a probe.
const (
	Accept           Outcome = "accept"            // Access-Accept (RFC 2865 section 4.2)
	Reject           Outcome = "reject"            // Access-Reject (RFC 2865 section 4.3)
	Challenge        Outcome = "challenge"         // Access-Challenge (RFC 2865 section 4.4)
	Alive            Outcome = "alive"             // Accounting-Response, or any answer to Status-Server (RFC 5997)
	Timeout          Outcome = "timeout"           // nothing valid within the budget
	Refused          Outcome = "refused"           // ICMP unreachable
	BadAuthenticator Outcome = "bad_authenticator" // answers came, all with a wrong Response or Message-Authenticator
	Malformed        Outcome = "malformed"         // answers came, none parses or fits the request
	BadCertificate   Outcome = "bad_certificate"   // the server's certificate is not valid, and has to be
	ProberError      Outcome = "prober_error"      // the fault is the prober's own
)

// Outcomes lists every outcome, in the order of the design's table.
func Outcomes() []Outcome {
	return []Outcome{Accept, Reject, Challenge, Alive, Timeout, Refused, BadAuthenticator, Malformed, BadCertificate, ProberError}
}

// Evidence is what an outcome says about the server.
type Evidence int

// The three kinds of evidence.
const (
	NoEvidence Evidence = iota
	Success
	Failure
)

// Criteria say which outcomes are a success and which a failure. An outcome in
// neither list is no evidence.
type Criteria struct {
	HealthyOn []Outcome
	FailureOn []Outcome
}

// Evidence judges an outcome. Alive always proves the server, and ProberError
// never says anything about it, whatever the lists hold.
func (c Criteria) Evidence(o Outcome) Evidence {
	switch {
	case o == ProberError:
		return NoEvidence
	case o == Alive, slices.Contains(c.HealthyOn, o):
		return Success
	case slices.Contains(c.FailureOn, o):
		return Failure
	}
	return NoEvidence
}
