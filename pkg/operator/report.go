// Package operator is what an operator sees of the system and orders of it: where
// every server stands and why, what comes next, what has happened, and drains.
//
// It reads the two tables and the target groups, and decides with the
// reconciler's own code, so that it cannot tell another story than what the
// reconciler does.
package operator

import (
	"time"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// Report is where everything stands.
type Report struct {
	At           time.Time `json:"at"`
	FleetVersion string    `json:"fleet_version"`
	Groups       []Group   `json:"groups"` // in the order of the fleet
}

// Group is where a group stands.
type Group struct {
	Name          string        `json:"name"`
	Mode          fleet.Mode    `json:"mode"`
	Case          health.Case   `json:"case"`
	Meaning       string        `json:"meaning"` // of the case, in a sentence
	Below         int           `json:"below"`
	FailOpen      bool          `json:"fail_open"`
	FailOpenSince *time.Time    `json:"fail_open_since,omitempty"`
	Registered    int           `json:"registered"`             // servers that are in all of their target groups
	Desired       int           `json:"desired"`                // servers that will be there after a pass
	NewestRound   *time.Time    `json:"newest_round,omitempty"` // of any server; an old one says that the prober is silent
	Decided       *time.Time    `json:"decided,omitempty"`      // round that brought the stored decision
	Pass          store.Pass    `json:"pass,omitempty"`         // how the newest pass ended
	PassError     string        `json:"pass_error,omitempty"`
	TargetGroups  []TargetGroup `json:"target_groups"`
	Servers       []Server      `json:"servers"` // in the order of the fleet
	Warnings      []string      `json:"warnings,omitempty"`
}

// TargetGroup is what is in a target group, and what a pass would change now.
type TargetGroup struct {
	ARN        string   `json:"arn"`
	Name       string   `json:"name"`
	Registered int      `json:"registered"` // targets of the group's servers
	Draining   int      `json:"draining"`
	Unmanaged  []string `json:"unmanaged,omitempty"` // targets that no server owns
	Error      string   `json:"error,omitempty"`     // why nothing is known of it
}

// Server is where a server stands.
type Server struct {
	Name       string            `json:"name"`
	Address    string            `json:"address"`
	Standing   health.Standing   `json:"standing"`
	Row        string            `json:"row,omitempty"`   // of the check that the standing comes from
	Since      *time.Time        `json:"since,omitempty"` // of the state that the standing comes from
	Membership health.Membership `json:"membership"`
	Reason     string            `json:"reason"`
	Registered int               `json:"registered"` // in how many of its target groups
	Draining   int               `json:"draining"`   // in how many of them it is draining
	Drain      *Drain            `json:"drain,omitempty"`
	HeldUntil  *time.Time        `json:"held_until,omitempty"`
	Next       string            `json:"next"`              // the next change that can come, in words
	NextAt     *time.Time        `json:"next_at,omitempty"` // when it can come at the earliest
	Checks     []Check           `json:"checks"`
}

// Drain is an order that keeps a server out.
type Drain struct {
	Until  *time.Time `json:"until,omitempty"` // none for admin: out in fleet.yaml
	Reason string     `json:"reason"`
}

// Check is where a check of a server stands.
type Check struct {
	Row                  string         `json:"row"` // in table probes
	Method               fleet.Method   `json:"method"`
	Address              string         `json:"address"` // where it is probed, with port
	Status               health.Status  `json:"status"`
	Since                *time.Time     `json:"since,omitempty"`
	HeldUntil            *time.Time     `json:"held_until,omitempty"`
	Outcome              health.Outcome `json:"outcome,omitempty"` // of the newest probe
	Round                *time.Time     `json:"round,omitempty"`   // of the newest probe
	Reason               string         `json:"reason,omitempty"`
	ReplyMessage         string         `json:"reply_message,omitempty"`
	ConsecutiveFailures  int            `json:"consecutive_failures"`
	ConsecutiveSuccesses int            `json:"consecutive_successes"`
	StreakSince          *time.Time     `json:"streak_since,omitempty"`
	LatencyMS            float64        `json:"latency_ms,omitempty"`     // of the newest probe
	LatencyP50MS         float64        `json:"latency_p50_ms,omitempty"` // of the newest answered probes
	LatencyP99MS         float64        `json:"latency_p99_ms,omitempty"`
	Recent               []float64      `json:"recent_latency_ms,omitempty"` // of the newest conclusive probes, oldest first; 0 without an answer
}
