package operator

import "time"

// Timelines are what happened to the groups of a fleet.
type Timelines struct {
	FleetVersion string     `json:"fleet_version"`
	Groups       []Timeline `json:"groups"` // in the order of the fleet
}

// Timeline is what happened to a group in a time.
type Timeline struct {
	Group   string    `json:"group"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Lanes   []Lane    `json:"lanes"`             // one for each check, in the order of the fleet, and those of servers that have left it
	Marks   []Mark    `json:"marks"`             // oldest first
	Latency []Sample  `json:"latency,omitempty"` // of the whole group, from the metrics
	Notes   []string  `json:"notes,omitempty"`   // what could not be found out
}

// Lane is the history of one check of a server.
type Lane struct {
	Server  string   `json:"server"`
	Row     string   `json:"row"`
	Spans   []Span   `json:"spans"` // without gaps from Timeline.From to Timeline.To
	Latency []Sample `json:"latency,omitempty"`
}

// Span is a time in which a server stood in one way.
type Span struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Status  string    `json:"status"` // a health.Status; unknown where the history does not reach
	Drained bool      `json:"drained,omitempty"`
	Rule    string    `json:"rule,omitempty"` // that began it
	Reason  string    `json:"reason,omitempty"`
}

// Mark is something that happened at one moment.
type Mark struct {
	At     time.Time `json:"at"`
	Kind   MarkKind  `json:"kind"`
	Server string    `json:"server,omitempty"` // empty for the whole group
	Text   string    `json:"text"`
}

// MarkKind says what happened.
type MarkKind string

// The kinds of marks.
const (
	MarkTransition    MarkKind = "transition"
	MarkRegister      MarkKind = "register"
	MarkDeregister    MarkKind = "deregister"
	MarkWithheld      MarkKind = "withheld"
	MarkFailOpenBegin MarkKind = "fail-open begins"
	MarkFailOpenEnd   MarkKind = "fail-open ends"
	MarkDrain         MarkKind = "drain"
	MarkUndrain       MarkKind = "undrain"
)

// Sample is a latency at a time.
type Sample struct {
	At    time.Time `json:"at"`
	P50MS float64   `json:"p50_ms"`
	P99MS float64   `json:"p99_ms"`
}
