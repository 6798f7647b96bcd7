package nas

import (
	"time"

	"radwitness/pkg/health"
)

// Report is what a NAS sees, or would have seen. Its JSON is described by
// docs/schema/fleet-test.json.
type Report struct {
	Group        string         `json:"group"`
	FleetVersion string         `json:"fleet_version"`
	Recorded     bool           `json:"recorded"` // of the recorded history, not of live servers
	From         time.Time      `json:"from"`
	To           time.Time      `json:"to"`
	Settings     SettingsReport `json:"settings"`
	Views        []View         `json:"views"`             // of a recorded time first with all servers listed by the NAS, then behind the NLB
	Outages      []Outage       `json:"outages,omitempty"` // of a recorded time
	Notes        []string       `json:"notes,omitempty"`   // what limits the figures
}

// SettingsReport is Settings as they are printed. What belongs to
// least-outstanding is absent with the others.
type SettingsReport struct {
	Strategy        Strategy `json:"strategy"`
	TimeoutMS       float64  `json:"timeout_ms"`
	Retries         int      `json:"retries"`
	Batch           int      `json:"batch,omitempty"`
	IgnorePreferred bool     `json:"ignore_preferred_server,omitempty"`
	DeadAfter       int      `json:"dead_after,omitempty"`
	DeadSilenceMS   float64  `json:"dead_silence_ms,omitempty"`
	DeadTimeMS      float64  `json:"deadtime_ms,omitempty"`
}

// Report returns the settings as they are printed.
func (s Settings) Report() SettingsReport {
	r := SettingsReport{Strategy: s.Strategy, TimeoutMS: milliseconds(s.Timeout), Retries: s.Retries}
	if s.Strategy == LeastOutstanding {
		r.Batch, r.IgnorePreferred, r.DeadAfter = s.Batch, s.IgnorePreferred, s.DeadAfter
		r.DeadSilenceMS, r.DeadTimeMS = milliseconds(s.DeadSilence), milliseconds(s.DeadTime)
	}
	return r
}

// View is what one NAS sees.
type View struct {
	Summary
	Servers []ServerReport `json:"servers"`         // in the order of the NAS's list
	First   []int          `json:"first"`           // servers of the first login's transmissions, numbered from 1
	Trace   []Packet       `json:"trace,omitempty"` // every transmission, by login
}

// Summary is what became of logins.
type Summary struct {
	Name       string   `json:"name"` // of the view
	Logins     int      `json:"logins"`
	Unanswered int      `json:"unanswered"`  // no server answered
	Delayed    int      `json:"delayed"`     // logins that waited a timeout in vain
	FailedOver int      `json:"failed_over"` // logins that asked more than one server
	LetIn      LetIn    `json:"let_in"`
	Wait       WaitTime `json:"wait"`
}

// LetIn is how many users get in, by what the NAS does where no server answers.
// With an answer a user gets in if the fleet counts it as a success.
type LetIn struct {
	Deny  int `json:"deny"`  // failover policy: deny access
	Allow int `json:"allow"` // failover policy: allow access
}

// WaitTime is how long users wait for the end of their login. A transmission
// without an answer counts as the timeout, however late a timer was.
type WaitTime struct {
	P50MS   float64 `json:"p50_ms"`
	P99MS   float64 `json:"p99_ms"`
	MaxMS   float64 `json:"max_ms"`
	WorstMS float64 `json:"worst_ms"` // the longest that the settings allow: rounds x servers x timeout
}

// ServerReport is what a NAS sees of a server.
type ServerReport struct {
	Name          string  `json:"name"`
	Address       string  `json:"address"`
	Logins        int     `json:"logins"`        // that asked it first
	Share         float64 `json:"share"`         // of all logins, those that it answered; 0 to 1
	Transmissions int     `json:"transmissions"` // what follows adds up to it
	Accepts       int     `json:"accepts"`
	Rejects       int     `json:"rejects"`
	Challenges    int     `json:"challenges"`
	Timeouts      int     `json:"timeouts"`
	ICMPErrors    int     `json:"icmp_errors"`
	Invalid       int     `json:"invalid"`        // answers that did not verify, or a bad certificate
	Dead          int     `json:"dead,omitempty"` // how often it became dead
}

// Packet is a line of a trace.
type Packet struct {
	Login   int            `json:"login"` // numbered from 1
	AtMS    float64        `json:"at_ms"` // since the beginning of the login
	Server  string         `json:"server"`
	Outcome health.Outcome `json:"outcome"`
	WaitMS  float64        `json:"wait_ms"`
}

// Outage is a time in which a server did not answer as it should.
type Outage struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Failing []string  `json:"failing"` // servers with their outcomes
	Views   []Summary `json:"views"`   // of the logins that began in it
}
