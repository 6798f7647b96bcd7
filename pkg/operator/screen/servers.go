package screen

import (
	"fmt"
	"strings"
	"time"

	"radwitness/pkg/health"
	"radwitness/pkg/operator"
)

// Servers draws counters in the manner of Cisco's show aaa servers.
func (s Screen) Servers(r operator.ServersReport) string {
	var b strings.Builder
	for _, g := range r.Groups {
		b.WriteString(s.warnings(g.Warnings))
		for _, c := range g.Checks {
			b.WriteString(s.counters(g.Name, c) + "\n")
		}
	}
	b.WriteString(s.faint(fmt.Sprintf("dead and quarantined: in the %s since %s; counters: since the row of the server began",
		operator.Short(r.At.Sub(r.Since)), r.Since.In(s.Location).Format("2006-01-02 15:04 MST"))) + "\n")
	return b.String()
}

func (s Screen) counters(group string, c operator.Counters) string {
	state := strings.ToUpper(string(c.State))
	switch c.State {
	case health.Up:
		state = s.good(state)
	case health.Down:
		state = s.bad(state)
	default:
		state = s.doubt(state)
	}
	yes := "no"
	if c.Quarantined {
		yes = s.doubt("yes")
	}
	lasted := func(seconds float64) string { return operator.Short(time.Duration(seconds * float64(time.Second))) }
	previous := lasted(c.PreviousSeconds) + " " + c.PreviousState
	if c.PreviousState == string(health.Unknown) {
		previous = "unknown"
	}
	duration := lasted(c.DurationSeconds)
	if c.State == health.Unknown {
		duration = "unknown"
	}
	return fmt.Sprintf(`%s/%s: %s, method %s
     State: current %s, duration %s, previous duration %s
     Dead: total time %s, count %d
     Quarantined: %s, total time %s, count %d
     Probes: success %d, failure %d, no evidence %d, time %.1f ms
     Transactions: requests %d, retransmissions %d, timeouts %d, refused %d
     Responses: accept %d, reject %d, challenge %d, alive %d
     Responses: unexpected %d, incorrect %d, bad certificate %d
`,
		s.bold(group), s.bold(c.Row), c.Address, c.Method, state, duration, previous,
		lasted(c.DeadSeconds), c.DeadCount, yes, lasted(c.QuarantineSeconds), c.QuarantineCount,
		c.Success, c.Failure, c.NoEvidence, c.TimeMS, c.Requests, c.Retransmits, c.Timeouts, c.Refused,
		c.Accepts, c.Rejects, c.Challenges, c.Alives, c.Unexpected, c.Incorrect, c.BadCertificates)
}
