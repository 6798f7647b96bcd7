package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

// row is what happened within a tenth of a second.
type row struct {
	at      time.Time
	lines   []line
	members string // of the target group, after it
}

type line struct {
	kind kind
	text string
}

// kind orders what happens at one time.
type kind int

const (
	happening kind = iota
	answer
	transition
	failOpen
	decision
	change
	traffic
)

// witnessed is table probes, with the stream behind it.
type witnessed struct {
	*store.Probes
	s *stage
}

func (w witnessed) Record(ctx context.Context, r store.ProbeResult) (store.ProbeRow, error) {
	row, err := w.Probes.Record(ctx, r)
	if err == nil {
		w.s.probed(row)
	}
	return row, err
}

// probed tells of a probe, and passes its row on to the reconciler.
func (s *stage) probed(row store.ProbeRow) {
	var what string
	s.mu.Lock()
	switch threshold := s.group.Health.FailureThreshold; {
	case row.ConsecutiveFailures > 0 && row.ConsecutiveFailures <= threshold:
		what = fmt.Sprintf("%s: %s, failure %d of %d", row.Server, row.Outcome, row.ConsecutiveFailures, threshold)
	case row.ConsecutiveFailures == 0 && s.wasDown[row.Server]:
		what = fmt.Sprintf("%s: %s", row.Server, row.Outcome)
	case row.CredentialStage != s.stages[row.Server]:
		what = fmt.Sprintf("%s: %s, with %s", row.Server, row.Outcome, row.CredentialStage)
	}
	s.wasDown[row.Server], s.stages[row.Server] = row.ConsecutiveFailures > 0, row.CredentialStage
	s.pending = append(s.pending, reconciler.Record{Row: row})
	first := len(s.pending) == 1
	s.mu.Unlock()
	if what != "" && !s.brief {
		s.note(answer, what)
	}
	if first {
		time.AfterFunc(pollDelay, s.deliver)
	}
}

// deliver is Lambda's poll of the stream.
func (s *stage) deliver() {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	batch := s.pending
	s.pending = nil
	s.mu.Unlock()
	if again := s.reconciler.Reconcile(context.Background(), batch); len(again) > 0 {
		s.note(happening, "the reconciler failed")
	}
}

// drainDB is DynamoDB as the operator's command reaches it.
type drainDB struct{ *dynamo }

func (drainDB) DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return nil, errors.New("no story takes a drain back")
}

// healthDB tells of what the reconciler writes.
type healthDB struct {
	*dynamo
	s *stage
}

func (d healthDB) PutItem(ctx context.Context, in *dynamodb.PutItemInput, options ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	out, err := d.dynamo.PutItem(ctx, in, options...)
	if err == nil {
		d.s.wrote(in.Item)
	}
	return out, err
}

// wrote tells of an item of table health.
func (s *stage) wrote(i item) {
	sort, _, _ := strings.Cut(text(i["item"]), "#")
	switch sort {
	case "transition":
		var t struct {
			Server string    `dynamodbav:"server"`
			From   string    `dynamodbav:"from"`
			To     string    `dynamodbav:"to"`
			Rule   string    `dynamodbav:"rule"`
			Until  time.Time `dynamodbav:"held_until"`
		}
		must(attributevalue.UnmarshalMap(i, &t))
		switch what := fmt.Sprintf("%s: %s → %s (%s)", t.Server, t.From, t.To, t.Rule); {
		case t.Server == "" && t.To == "open":
			s.note(failOpen, "fail-open begins")
		case t.Server == "":
			s.note(failOpen, "fail-open ends")
		case !t.Until.IsZero():
			s.note(transition, what+" until "+t.Until.Format(time.TimeOnly))
		default:
			s.note(transition, what)
		}
	case "group":
		var g store.GroupRow
		must(attributevalue.UnmarshalMap(i, &g))
		s.decided(g)
	case "update":
		var c store.Change
		must(attributevalue.UnmarshalMap(i, &c))
		s.changed("registered", c.Registered)
		s.changed("deregistered", c.Deregistered)
		if len(c.Registered) > 0 {
			time.AfterFunc(firstChecks, func() { s.served(c.Registered) })
		}
	}
}

// decided tells of a decision that is not the last one again: who is not simply
// in, by the reason.
func (s *stage) decided(g store.GroupRow) {
	var reasons []string
	servers := map[string][]string{}
	for _, name := range s.names() {
		if reason := fmt.Sprintf("%s (%s)", g.Members[name], g.Reasons[name]); reason != "in (up)" {
			if servers[reason] == nil {
				reasons = append(reasons, reason)
			}
			servers[reason] = append(servers[reason], name)
		}
	}
	what := "all in"
	for i, reason := range reasons {
		reasons[i] = strings.Join(servers[reason], ", ") + " " + reason
		what = strings.Join(reasons, "; ")
	}
	what = fmt.Sprintf("decision *%s*: %s", g.Case, what)
	s.mu.Lock()
	same := what == s.said
	s.said = what
	s.mu.Unlock()
	if !same {
		s.note(decision, what)
	}
}

func (s *stage) changed(verb string, moves []store.Move) {
	for _, m := range moves {
		s.note(change, fmt.Sprintf("**%s %s**", m.Server, verb))
	}
}

// served tells of targets that the NLB's own checks have passed since they were
// registered.
func (s *stage) served(moves []store.Move) {
	members := strings.Fields(s.members())
	for _, m := range moves {
		if slices.Contains(members, m.Server) {
			s.note(traffic, m.Server+": healthy for the NLB, traffic flows")
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// note writes a line, into the row of its tenth of a second.
func (s *stage) note(k kind, what string) {
	members := s.members()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Now().Truncate(tenth)
	if n := len(s.rows); n == 0 || !s.rows[n-1].at.Equal(at) {
		s.rows = append(s.rows, row{at: at})
	}
	last := &s.rows[len(s.rows)-1]
	last.lines, last.members = append(last.lines, line{k, what}), members
}

// members lists the registered targets; one that does not get traffic yet stands
// in brackets.
func (s *stage) members() string {
	var list []string
	for _, target := range s.aws.Targets(s.group.TargetGroups[0].ARN) {
		for _, server := range s.group.Servers {
			switch {
			case server.Address.String() != target.ID:
			case target.State == elbv2types.TargetHealthStateEnumInitial:
				list = append(list, "("+server.Name+")")
			case target.State == elbv2types.TargetHealthStateEnumHealthy:
				list = append(list, server.Name)
			}
		}
	}
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(strings.Trim(a, "()"), strings.Trim(b, "()")) })
	return strings.Join(list, " ")
}

// table prints the story. What happened at the same time is sorted, as it may
// have happened in any order.
func (s *stage) table() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	b.WriteString("| time | what happens | in the target group |\n|---|---|---|\n")
	for _, r := range s.rows {
		slices.SortFunc(r.lines, func(a, b line) int { return cmp.Or(cmp.Compare(a.kind, b.kind), strings.Compare(a.text, b.text)) })
		var texts []string
		for _, l := range r.lines {
			texts = append(texts, strings.ReplaceAll(l.text, s.start.Format(time.DateOnly)+"T", ""))
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.at.Format("15:04:05.0"), strings.Join(texts, "<br>"), r.members)
	}
	return b.String()
}
