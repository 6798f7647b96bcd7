package operator

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// retention is how far back the history goes.
const retention = 90 * 24 * time.Hour

// ServersReport counts what every server has done, in the manner of Cisco's
// show aaa servers.
type ServersReport struct {
	At           time.Time      `json:"at"`
	Since        time.Time      `json:"since"` // what the history says, it says from here on
	FleetVersion string         `json:"fleet_version"`
	Groups       []ServersGroup `json:"groups"` // in the order of the fleet
}

// ServersGroup are the checks of a group's servers.
type ServersGroup struct {
	Name     string     `json:"name"`
	Checks   []Counters `json:"checks"` // in the order of the fleet
	Warnings []string   `json:"warnings,omitempty"`
}

// Counters are what a check of a server has done. Those of probes, transactions
// and responses begin with its row in table probes, and only grow.
type Counters struct {
	Server  string       `json:"server"`
	Row     string       `json:"row"`
	Address string       `json:"address"` // with port
	Method  fleet.Method `json:"method"`

	State             health.Status `json:"state"`
	DurationSeconds   float64       `json:"duration_s"`          // of the state; 0 if it is unknown
	PreviousState     string        `json:"previous_state"`      // unknown if the history does not say
	PreviousSeconds   float64       `json:"previous_duration_s"` // of the state before
	DeadSeconds       float64       `json:"dead_s"`              // in state down, since ServersReport.Since
	DeadCount         int           `json:"dead_count"`          // times it became down, since then
	Quarantined       bool          `json:"quarantined"`         // in hold-down
	QuarantineSeconds float64       `json:"quarantine_s"`        // in hold-down, since ServersReport.Since
	QuarantineCount   int           `json:"quarantine_count"`    // hold-downs begun, since then

	Requests        int64 `json:"requests"` // RADIUS transactions
	Retransmits     int64 `json:"retransmits"`
	Timeouts        int64 `json:"timeouts"`
	Refused         int64 `json:"refused"` // ICMP unreachable
	Accepts         int64 `json:"accepts"`
	Rejects         int64 `json:"rejects"`
	Challenges      int64 `json:"challenges"`
	Alives          int64 `json:"alives"`     // Accounting-Response, or an answer to Status-Server
	Unexpected      int64 `json:"unexpected"` // probes with answers that none parses or fits
	Incorrect       int64 `json:"incorrect"`  // probes with answers that all had a wrong authenticator
	BadCertificates int64 `json:"bad_certificates"`

	Success    int64   `json:"success"`     // probes with an outcome of healthy_on
	Failure    int64   `json:"failure"`     // probes with an outcome of failure_on
	NoEvidence int64   `json:"no_evidence"` // probes with another outcome, such as a fault of the prober
	TimeMS     float64 `json:"time_ms"`     // mean of the answered probes
}

// Servers counts what the servers of a group have done, or of all groups if the
// name is empty.
func (o *Operator) Servers(ctx context.Context, group string) (ServersReport, error) {
	groups, err := o.groups(group)
	if err != nil {
		return ServersReport{}, err
	}
	now := o.now().UTC()
	r := ServersReport{At: now, Since: now.Add(-retention), FleetVersion: o.Fleet.Version}
	for _, g := range groups {
		v, err := o.Viewer.View(ctx, g)
		if err != nil {
			return ServersReport{}, fmt.Errorf("looking at group %s: %w", g.Name, err)
		}
		past, err := o.History.History(ctx, g.Name, r.Since)
		if past.Transitions == nil && err != nil {
			return ServersReport{}, err
		}
		counted := ServersGroup{Name: g.Name, Warnings: unusable(v)}
		if err != nil {
			counted.Warnings = append(counted.Warnings, "part of the history cannot be read: "+oneLine(err))
		}
		for _, s := range g.Servers {
			for _, c := range s.Checks {
				counted.Checks = append(counted.Checks, newCounters(v, s, c, past, r.Since, now))
			}
		}
		r.Groups = append(r.Groups, counted)
	}
	return r, nil
}

func newCounters(v *reconciler.View, s fleet.Server, p fleet.Probe, past store.History, since, now time.Time) Counters {
	row := v.Rows[p.Row]
	c := Counters{
		Server: s.Name, Row: p.Row, Address: netip.AddrPortFrom(s.Address, p.Port).String(), Method: p.Method, State: v.State(p.Row).Status,
		Requests: row.Requests, Retransmits: row.Retransmits, Timeouts: row.Timeouts, Refused: row.Refused,
		Accepts: row.Accepts, Rejects: row.Rejects, Challenges: row.Challenges, Alives: row.Alives,
		Unexpected: row.Malformed, Incorrect: row.BadAuthenticators, BadCertificates: row.BadCertificates,
	}
	for outcome, n := range row.Totals() {
		switch p.Criteria.Evidence(outcome) {
		case health.Success:
			c.Success += n
		case health.Failure:
			c.Failure += n
		default:
			c.NoEvidence += n
		}
	}
	c.TimeMS = float64(row.MeanLatency().Microseconds()) / 1000
	c.Quarantined = c.State == health.HoldDown

	// Spans of one status in a row are one: a hold-down may be begun anew.
	var runs []Span
	for _, span := range spans(past.Transitions, p.Row, v.State(p.Row), since, now) {
		length := span.To.Sub(span.From).Seconds()
		switch health.Status(span.Status) {
		case health.Down:
			c.DeadSeconds += length
		case health.HoldDown:
			c.QuarantineSeconds += length
		}
		if n := len(runs); n > 0 && runs[n-1].Status == span.Status {
			runs[n-1].To = span.To
			continue
		}
		runs = append(runs, span)
		if span.Rule != "" && span.Status == string(health.Down) {
			c.DeadCount++
		}
		if span.Rule != "" && span.Status == string(health.HoldDown) {
			c.QuarantineCount++
		}
	}
	c.PreviousState = string(health.Unknown)
	if c.State == health.Unknown {
		return c // whatever the history says, it is about another machine
	}
	c.DurationSeconds = runs[len(runs)-1].To.Sub(runs[len(runs)-1].From).Seconds()
	if len(runs) > 1 {
		before := runs[len(runs)-2]
		c.PreviousState, c.PreviousSeconds = before.Status, before.To.Sub(before.From).Seconds()
	}
	return c
}
