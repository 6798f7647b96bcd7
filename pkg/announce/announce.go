// Package announce tells EventBridge what the reconciler has changed, so that
// people can route it to a chat, a pager or another program. The events are
// described in docs/events.md. An event is sent once at most: the history in
// table health is the record, this is the bell.
package announce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"radwitness/pkg/health"
	"radwitness/pkg/store"
)

// Source is the source of every event.
const Source = "radwitness"

// maxEntries is how many events one call of PutEvents takes.
const maxEntries = 10

// Detail is what an event says: one of the structs below.
type Detail interface {
	detailType() string
	resources() []string
}

// ServerStateChange is a transition of one server.
type ServerStateChange struct {
	Group        string         `json:"group"`
	Server       string         `json:"server"`
	From         health.Status  `json:"from"`
	To           health.Status  `json:"to"`
	Rule         health.Rule    `json:"rule"`             // of the state machine
	Outcome      health.Outcome `json:"outcome"`          // of the probe
	Reason       string         `json:"reason,omitempty"` // of the outcome, in the prober's words
	Round        time.Time      `json:"round"`            // of the probe
	HeldUntil    *time.Time     `json:"held_until,omitempty"`
	FleetVersion string         `json:"fleet_version"`
}

func (ServerStateChange) detailType() string  { return "Server State Change" }
func (ServerStateChange) resources() []string { return nil }

// TargetGroupChange is a pass that registered or deregistered targets.
type TargetGroupChange struct {
	Group        string       `json:"group"`
	TargetGroup  string       `json:"target_group"` // ARN
	Case         health.Case  `json:"case"`         // row of the group decision
	FailOpen     bool         `json:"fail_open"`
	Registered   []store.Move `json:"registered,omitempty"`
	Deregistered []store.Move `json:"deregistered,omitempty"`
	Withheld     []store.Move `json:"withheld,omitempty"`      // wanted, but not done: it would have done harm
	EmptiedZones []string     `json:"emptied_zones,omitempty"` // Availability Zones left without a target
	Error        string       `json:"error,omitempty"`         // what else failed
	Round        time.Time    `json:"round"`                   // newest probe of the group
	FleetVersion string       `json:"fleet_version"`
}

func (TargetGroupChange) detailType() string    { return "Target Group Change" }
func (c TargetGroupChange) resources() []string { return []string{c.TargetGroup} }

// FailOpenChange is the beginning or the end of a group's fail-open.
type FailOpenChange struct {
	Group        string            `json:"group"`
	From         string            `json:"from"` // "closed" or "open"
	To           string            `json:"to"`
	Case         health.Case       `json:"case"`
	Below        int               `json:"below"`
	Servers      map[string]string `json:"servers"` // why each is in, out or kept
	Round        time.Time         `json:"round"`
	FleetVersion string            `json:"fleet_version"`
}

func (FailOpenChange) detailType() string  { return "Fail-open Change" }
func (FailOpenChange) resources() []string { return nil }

// EventBridge is the part of the EventBridge API that a Client calls.
type EventBridge interface {
	PutEvents(context.Context, *eventbridge.PutEventsInput, ...func(*eventbridge.Options)) (*eventbridge.PutEventsOutput, error)
}

// Client sends events to a bus.
type Client struct {
	EventBridge EventBridge
	Bus         string // name or ARN; empty means the account's default bus
}

// Announce sends the events, stamped with the given time. The error joins what
// the bus did not take; all that it took is sent.
func (c *Client) Announce(ctx context.Context, at time.Time, details []Detail) error {
	var failures []error
	for chunk := range slices.Chunk(details, maxEntries) {
		entries := make([]types.PutEventsRequestEntry, len(chunk))
		for i, d := range chunk {
			b, err := json.Marshal(d)
			if err != nil {
				return fmt.Errorf("encoding event %q: %w", d.detailType(), err)
			}
			entries[i] = types.PutEventsRequestEntry{
				Source: aws.String(Source), DetailType: aws.String(d.detailType()), Detail: aws.String(string(b)),
				Resources: d.resources(), Time: &at,
			}
			if c.Bus != "" {
				entries[i].EventBusName = &c.Bus
			}
		}
		out, err := c.EventBridge.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: entries})
		if err != nil {
			failures = append(failures, fmt.Errorf("sending events: %w", err))
			continue
		}
		for i, e := range out.Entries {
			if e.ErrorCode != nil {
				failures = append(failures, fmt.Errorf("sending event %q: %s: %s", chunk[i].detailType(), *e.ErrorCode, aws.ToString(e.ErrorMessage)))
			}
		}
	}
	return errors.Join(failures...)
}
