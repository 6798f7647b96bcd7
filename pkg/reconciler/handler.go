package reconciler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"radwitness/pkg/balancer"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

// Request asks by hand what a pass would do. An empty group means all.
type Request struct {
	Action string `json:"action"` // "plan"
	Group  string `json:"group"`
}

const knownFields = `"action" ("plan") and "group"`

// PlanReport is the answer to a Request.
type PlanReport struct {
	FleetVersion string      `json:"fleet_version"`
	Groups       []GroupPlan `json:"groups"`
}

// GroupPlan is what a pass over a group would do now, and why.
type GroupPlan struct {
	Group        string            `json:"group"`
	Mode         fleet.Mode        `json:"mode"` // in observe mode a pass does nothing
	Case         health.Case       `json:"case"`
	Below        int               `json:"below"`
	FailOpen     bool              `json:"fail_open"`
	Servers      []ServerPlan      `json:"servers"`
	TargetGroups []TargetGroupPlan `json:"target_groups"`
}

// ServerPlan is the decision for one server, and what it rests on.
type ServerPlan struct {
	Server     string            `json:"server"`
	Membership health.Membership `json:"membership"`
	Reason     string            `json:"reason"`
	Checks     []CheckState      `json:"checks"`
}

// CheckState is where one check of a server stands.
type CheckState struct {
	Row       string         `json:"row"` // in table probes
	Method    fleet.Method   `json:"method"`
	Status    health.Status  `json:"status"`
	Since     *time.Time     `json:"since,omitempty"`
	HeldUntil *time.Time     `json:"held_until,omitempty"`
	Outcome   health.Outcome `json:"outcome,omitempty"` // of the newest probe
	Round     *time.Time     `json:"round,omitempty"`   // of the newest probe
}

// TargetGroupPlan is the plan for one target group, or why there is none.
type TargetGroupPlan struct {
	balancer.Plan
	Error string `json:"error,omitempty"`
}

// Handle is the Lambda handler. A DynamoDB Streams event answers its
// batchItemFailures; any other JSON object is a Request and answers its
// PlanReport.
func (r *Reconciler) Handle(ctx context.Context, event json.RawMessage) (any, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-reserve))
		defer cancel()
	}
	object := gjson.ParseBytes(event)
	if !gjson.ValidBytes(event) || !object.IsObject() {
		return nil, fmt.Errorf("reading event: a JSON object is needed, either a DynamoDB Streams event or a request with %s", knownFields)
	}
	if stream := object.Get("Records"); stream.IsArray() {
		var records []json.RawMessage
		stream.ForEach(func(_, record gjson.Result) bool {
			records = append(records, json.RawMessage(record.Raw))
			return true
		})
		return r.Batch(ctx, records), nil
	}
	var request Request
	d := json.NewDecoder(bytes.NewReader(event))
	d.DisallowUnknownFields()
	if err := d.Decode(&request); err != nil {
		return nil, fmt.Errorf("reading request: %w; the fields of a request are %s", err, knownFields)
	}
	if request.Action != "plan" {
		return nil, fmt.Errorf("action %q is not known; the fields of a request are %s", request.Action, knownFields)
	}
	return r.Plan(ctx, request.Group)
}

// Plan says what a pass over a group, or over all, would do now. It changes
// nothing.
func (r *Reconciler) Plan(ctx context.Context, group string) (PlanReport, error) {
	groups := r.Fleet.Groups
	if group != "" {
		g, ok := r.Fleet.Group(group)
		if !ok {
			return PlanReport{}, fmt.Errorf("group %q is not in the fleet", group)
		}
		groups = []fleet.Group{g}
	}
	report := PlanReport{FleetVersion: r.Fleet.Version}
	var failures []error
	for _, g := range groups {
		v, err := r.View(ctx, g)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		report.Groups = append(report.Groups, v.Plan())
	}
	return report, errors.Join(failures...)
}

// present makes a zero time absent from JSON.
func present(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
