package prober

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"radwitness/pkg/credentials"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
)

// Request asks for probes by hand. Empty fields mean all.
type Request struct {
	Group  string       `json:"group"`
	Server string       `json:"server"`
	Method fleet.Method `json:"method"` // instead of the configured one
	Write  bool         `json:"write"`  // record the results as a round would
}

// Report is the answer to a Request.
type Report struct {
	FleetVersion string         `json:"fleet_version"`
	Healthy      bool           `json:"healthy"` // every server is
	Results      []ServerReport `json:"results"`
}

// ServerReport is what a probe by hand found: one for each check of a server.
type ServerReport struct {
	Group         string         `json:"group"`
	Server        string         `json:"server"`
	Address       string         `json:"address"`
	Method        fleet.Method   `json:"method"`
	Outcome       health.Outcome `json:"outcome"`
	Healthy       bool           `json:"healthy"`
	Reason        string         `json:"reason,omitempty"`
	LatencyMS     float64        `json:"latency_ms,omitempty"` // absent without a valid answer
	Transmissions int            `json:"transmissions"`
	ReplyMessage  string         `json:"reply_message,omitempty"`
	Recorded      bool           `json:"recorded"`

	Certificate     *CertificateReport `json:"certificate,omitempty"`      // of the methods with TLS
	CredentialStage credentials.Stage  `json:"credential_stage,omitempty"` // absent with the current credentials
}

// CertificateReport is the certificate that a server showed.
type CertificateReport struct {
	Subject   string    `json:"subject"`
	Issuer    string    `json:"issuer"`
	ExpiresAt time.Time `json:"expires_at"`
	DaysLeft  float64   `json:"days_left"` // whole days, rounded down
	Chain     string    `json:"chain"`     // "valid", "not checked", or what is wrong with it
}

// scheduled is an event of EventBridge: a rule's, or a Scheduler's whose input
// is made in the same form.
type scheduled struct {
	DetailType string    `json:"detail-type"`
	Time       time.Time `json:"time"`
	Shard      Shard     `json:"shard"`
}

const scheduledDetailType = "Scheduled Event"

// Handle is the Lambda handler. A scheduled event runs a minute of rounds and
// answers null; any other JSON object is a Request and answers its Report.
func (p *Prober) Handle(ctx context.Context, event json.RawMessage) (any, error) {
	var kind struct {
		DetailType *string `json:"detail-type"`
	}
	if err := json.Unmarshal(event, &kind); err != nil {
		return nil, fmt.Errorf("reading event: a JSON object is needed, either a scheduled event or a request with %s: %w", knownFields, err)
	}
	if kind.DetailType == nil {
		var r Request
		d := json.NewDecoder(bytes.NewReader(event))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			return nil, fmt.Errorf("reading request: %w; the fields of a request are %s", err, knownFields)
		}
		return p.Report(ctx, r)
	}
	var e scheduled
	if err := json.Unmarshal(event, &e); err != nil {
		return nil, fmt.Errorf("reading scheduled event: %w", err)
	}
	switch {
	case e.DetailType != scheduledDetailType:
		return nil, fmt.Errorf("reading event: detail-type %q is not %q", e.DetailType, scheduledDetailType)
	case e.Time.IsZero():
		return nil, errors.New("reading scheduled event: time is missing")
	case e.Shard.Count > 0 && e.Shard.Index >= e.Shard.Count:
		return nil, fmt.Errorf("reading scheduled event: shard index %d is not below count %d", e.Shard.Index, e.Shard.Count)
	}
	if age := time.Since(e.Time); age > maxEventAge {
		p.Log.Warn("event dropped: too old", "scheduled", e.Time, "age_s", int(age.Seconds()))
		return nil, nil
	}
	return nil, p.Minute(ctx, e.Shard)
}

const knownFields = `"group", "server", "method" and "write"`

// Report probes the asked-for servers once, now, all at the same time.
func (p *Prober) Report(ctx context.Context, r Request) (Report, error) {
	p.prepare()
	members, err := p.selected(r)
	if err != nil {
		return Report{}, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-reserve))
		defer cancel()
	}
	if p.Store != nil {
		p.load(ctx, members)
	}
	round := time.Now().UTC().Truncate(time.Millisecond)
	report := Report{FleetVersion: p.Fleet.Version, Healthy: true, Results: make([]ServerReport, len(members))}
	failures := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() {
			result := p.probe(ctx, m)
			report.Results[i] = serverReport(m, result)
			if r.Write {
				_, failures[i] = p.record(ctx, m, round, result)
				report.Results[i].Recorded = failures[i] == nil
			}
		})
	}
	wg.Wait()
	for _, s := range report.Results {
		report.Healthy = report.Healthy && s.Healthy
	}
	return report, errors.Join(failures...)
}

func serverReport(m *member, r finding) ServerReport {
	s := ServerReport{
		Group: m.key.group, Server: m.server.Name,
		Address:       m.address().String(),
		Method:        m.check.Method,
		Outcome:       r.Outcome,
		Healthy:       m.check.Criteria.Evidence(r.Outcome) == health.Success,
		Reason:        r.Reason,
		LatencyMS:     milliseconds(r.Latency),
		Transmissions: r.Transmissions,
		ReplyMessage:  r.ReplyMessage,
	}
	if c := r.Certificate; c.Seen() {
		s.Certificate = &CertificateReport{
			Subject: c.Subject, Issuer: c.Issuer, ExpiresAt: c.NotAfter, Chain: c.Chain, DaysLeft: math.Floor(c.DaysLeft(time.Now())),
		}
	}
	if r.stage == credentials.Previous {
		s.CredentialStage = r.stage
	}
	return s
}

// selected lists the members that a request asks for.
func (p *Prober) selected(r Request) ([]*member, error) {
	if r.Group != "" {
		if _, ok := p.Fleet.Group(r.Group); !ok {
			return nil, fmt.Errorf("group %q is not in the fleet", r.Group)
		}
	}
	members := p.members(func(group, server string) bool {
		return (r.Group == "" || group == r.Group) && (r.Server == "" || server == r.Server)
	})
	if len(members) == 0 {
		return nil, fmt.Errorf("server %q is not in %s", r.Server, cmp.Or(r.Group, "the fleet"))
	}
	if r.Method != "" {
		if !slices.Contains(probe.Supported(), r.Method) {
			return nil, fmt.Errorf("method %q cannot be probed; known are %s", r.Method, joinMethods(probe.Supported()))
		}
		members = byMethod(members, r.Method)
	}
	return members, nil
}

// byMethod has each server checked once, by the given method: by its own check
// of that method, or else by its first one with another method.
func byMethod(members []*member, method fleet.Method) []*member {
	var list []*member
	for _, m := range members {
		own := slices.IndexFunc(m.server.Checks, func(c fleet.Probe) bool { return c.Method == method })
		if m.check.Row != m.server.Checks[max(own, 0)].Row {
			continue
		}
		m.check.Method = method
		list = append(list, m)
	}
	return list
}

func joinMethods(methods []fleet.Method) string {
	names := make([]string, len(methods))
	for i, m := range methods {
		names[i] = string(m)
	}
	return strings.Join(names, ", ")
}
