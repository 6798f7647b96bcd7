// Package mutation_test breaks each rule of the design's sections 6 and 7 on
// purpose, one at a time, and demands that a test goes red for every one. It
// takes minutes, so it runs only if MUTATE is set: make mutate.
package mutation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// mutant is one broken rule. The edits alternate: old text, new text.
type mutant struct {
	rule  string
	file  string
	edits []string
}

const (
	state     = "pkg/health/state.go"
	outcome   = "pkg/health/outcome.go"
	decision  = "pkg/health/group.go"
	settings  = "pkg/fleet/fleet.go"
	target    = "pkg/balancer/target.go"
	plan      = "pkg/balancer/plan.go"
	apply     = "pkg/balancer/apply.go"
	observe   = "pkg/balancer/balancer.go"
	resolve   = "pkg/balancer/resolve.go"
	batch     = "pkg/reconciler/batch.go"
	pass      = "pkg/reconciler/pass.go"
	read      = "pkg/reconciler/reconciler.go"
	rows      = "pkg/store/probes.go"
	states    = "pkg/store/health.go"
	queries   = "pkg/store/store.go"
	relapse   = "case evidence == Failure:\n\t\t\treturn State{Status: Down"
	recovered = "return p.hold(s, o), RuleRecovered"
)

func mutants() []mutant {
	return []mutant{
		// Section 6: the state machine.
		{"a first success makes a server up", state, []string{"evidence == Success && s.Status == Unknown", "false"}},
		{"not down before the threshold", state, []string{"o.ConsecutiveFailures >= p.Fail", "o.ConsecutiveFailures+1 >= p.Fail"}},
		{"down at the threshold, not after it", state, []string{"o.ConsecutiveFailures >= p.Fail", "o.ConsecutiveFailures > p.Fail"}},
		{"an unknown server goes down at the threshold", state, []string{"case fell:", "case fell && s.Status == Up:"}},
		{"a server that was down goes into hold-down", state, []string{recovered, "return State{Status: Up, HoldDown: s.HoldDown}, RuleRecovered"}},
		{"the hold-down counts from success_since", state, []string{"o.SuccessSince.Add(d)", "o.Round.Add(d)"}},
		{"a failure ends the hold-down", state, []string{relapse, "case false:\n\t\t\treturn State{Status: Down"}},
		{"up at the hold-down's end, not after it", state, []string{"!at.Before(s.HeldUntil)", "at.After(s.HeldUntil)"}},
		{"not up before the hold-down's end", state, []string{"!at.Before(s.HeldUntil)", "true"}},
		{"a lost failure restarts the hold-down", state, []string{"case o.SuccessSince.After(s.Since):", "case false:"}},
		{"the hold-down doubles for a flapping server", state, []string{"p.clamp(2 * s.HoldDown)", "p.HoldDown"}},
		{"up to hold_down_max", state, []string{"min(d, p.HoldDownMax)", "d"}},
		{"and is forgotten after hold_down_max of staying up", state, []string{" && at.Sub(s.Since) <= p.HoldDownMax", ""}},
		{"a record that is not newer changes nothing", state, []string{"!at.After(s.Since)", "false"}},
		{"prober_error is no evidence", outcome, []string{"case o == ProberError:\n\t\treturn NoEvidence", "case o == ProberError:\n\t\treturn Failure"}},
		{"an outcome in neither list is no evidence", outcome, []string{"\t}\n\treturn NoEvidence\n}", "\t}\n\treturn Failure\n}"}},
		{"a server without a result lately is stale", decision, []string{"newest.Sub(at) > c.StaleAfter", "at.After(newest)"}},
		{"stale at the age, not before it", decision, []string{"newest.Sub(at) > c.StaleAfter", "newest.Sub(at) >= c.StaleAfter"}},
		{"a server never probed is stale", decision, []string{"evidence == NoEvidence || newest", "newest"}},
		{"the age is a minute at least", settings, []string{"max(3*p.Interval, time.Minute)", "3 * p.Interval"}},
		// Section 6: the group decision.
		{"serving needs solid servers", decision, []string{"case solid >= below:", "case up >= below:"}},
		{"doubt takes nobody out", decision, []string{"case up >= below:", "case false:"}},
		{"doubt keeps, it does not remove", decision, []string{`return Keep, "kept:`, `return Out, "kept:`}},
		{"hold-down counts before an outage is declared", decision, []string{"case up+held >= below:", "case up+held < 0:"}},
		{"recovering brings in what is held down", decision, []string{"case c == CaseRecovering && s == StandingHoldDown:", "case false:"}},
		{"recovering leaves out what is down", decision, []string{"case c == CaseRecovering && s == StandingHoldDown:", "case c == CaseRecovering:"}},
		{"a server stands where its worst check does", decision, []string{"if i == 0 || slices.Index(severity(), s) <", "if i == 0 || slices.Index(severity(), s) >"}},
		{"an outage opens the group", decision, []string{`return In, "fail-open: too few servers answer"`, `return Out, "fail-open: too few servers answer"`}},
		{"what is up is in", decision, []string{`return In, "up"`, `return Keep, "up"`}},
		{"unknown stays", decision, []string{`return Keep, "no verdict yet"`, `return Out, "no verdict yet"`}},
		{"stale stays", decision, []string{`return Keep, "no conclusive result lately"`, `return Out, "no conclusive result lately"`}},
		{"hold-down is out while enough serve", decision, []string{`return Out, "in hold-down"`, `return In, "in hold-down"`}},
		{"down is out while enough serve", decision, []string{`return Out, "down"`, `return Keep, "down"`}},
		{"drained is out in every row", decision, []string{`return Out, "drained"`, `return In, "drained"`}},
		{"drained is in no count", decision, []string{"return StandingDrained", "return StandingSolid"}},
		{"stale is in no count", decision, []string{"StaleAfter {\n\t\treturn StandingStale", "StaleAfter {\n\t\treturn StandingSolid"}},
		{"fail-open is told", decision, []string{"d.FailOpen = true", "d.FailOpen = false"}},
		{"a drain ends", read, []string{"ok && round.Before(d.Until)", "ok"}},
		// Section 7: observe and plan.
		{"a draining target counts as not registered", target, []string{"EnumDraining:\n\t\treturn false", "EnumDraining:\n\t\treturn true"}},
		{"so does one that is not registered", target, []string{"return s.Reason != elbv2types", "return s.Reason == elbv2types"}},
		{"a target without a port has the group's", target, []string{"cmp.Or(port, g.Port)", "port"}},
		{"calls name the port", apply, []string{", Port: &change.Target.Port}", "}"}},
		{"an instance is served on its primary address", resolve, []string{"if primary != address.String() {", "if primary == \"\" {"}},
		{"instances are remembered for a while", resolve, []string{"if known && !fresh && now", "if known && now.IsZero() && now"}},
		{"before pruning they are looked up again", observe, []string{"if remembered && outdated(", "if remembered && !remembered && outdated("}},
		{"a target whose instance is gone backs nothing", plan, []string{" && !state.dead()", ""}},
		{"targets of nobody are left alone", plan, []string{"case !d.Prune:", "case false:"}},
		{"and are reported", plan, []string{"p.Unmanaged = append(p.Unmanaged, t)\n", ""}},
		{"and not pruned while a server is unresolved", plan, []string{"case unresolved != \"\":", "case false:"}},
		{"two servers do not share a target", plan, []string{"taken && r.Refused == \"\"", "taken && false"}},
		// Section 7: apply.
		{"register before deregistering", apply, []string{"\tregistering.run(p.Register)\n", "", "\tderegistering.run(allowed)\n", "\tderegistering.run(allowed)\n\tregistering.run(p.Register)\n"}},
		{"the floor holds if registering failed", apply, []string{"guard(p.Below, slices", "guard(0, slices"}},
		{"the floor holds in the plan", plan, []string{"case backing < below:", "case false:"}},
		{"nothing leaves while all others are in their first checks", plan, []string{"case !serving:", "case false:"}},
		{"a target in its first checks is not reached", plan, []string{"= state.State != elbv2types.TargetHealthStateEnumInitial", "= true"}},
		{"an operator may go below the floor", plan, []string{"return c.Standing != health.StandingDrained", "return true"}},
		{"only solid and held down servers back a group", plan, []string{"return c.Standing == health.StandingSolid ||", "return true ||"}},
		{"what the floor rests on is confirmed", apply, []string{"confirming.run(p.Confirm)", "confirming.done = p.Confirm"}},
		{"one bad target does not block the rest", apply, []string{"case !blamesTarget(err):", "case true:"}},
		{"another error ends the calls", apply, []string{"b.fatal = err\n", ""}},
		// Section 7: batches and passes.
		{"a decision is stored only when it changes", batch, []string{"if !sameDecision(v.remember.Group, d) {", "if true {"}},
		{"a pass runs when the decision changes", read, []string{"Pass: store.PassPending,", "Pass: store.PassDone,"}},
		{"a failed pass is repeated", pass, []string{"row.Pass = store.PassPending\n\t\t} else", "row.Pass = store.PassDone\n\t\t} else"}},
		{"drift is healed within the reconcile interval", batch, []string{"r.now().Sub(r.lastPass(g.Name)) < g.ReconcileInterval", "!r.lastPass(g.Name).IsZero()"}},
		{"and not looked for more often", pass, []string{"r.setLastPass(v.group.Name, r.now())\n", ""}},
		{"a missing target group does not hold up the shard", pass, []string{"errors.Is(o.err, balancer.ErrTargetGroupNotFound), ", ""}},
		{"nor does a refused target", pass, []string{"return !o.result.OnlyRefusals()", "return true"}},
		{"observe mode makes no calls", pass, []string{"v.group.Mode == fleet.Enforce && !o.plan.Empty()", "!o.plan.Empty()"}},
		{"catching up leaves targets alone", batch, []string{"lag > maxLag", "lag > 24*maxLag"}},
		{"a state that is not stored is not acted on", batch, []string{"if err != nil {\n\t\t\treturn newest, err\n\t\t}\n\t\tv.remember", "_ = err\n\t\tv.remember"}},
		{"the newest row counts, not an old record", batch, []string{"!ok || row.Round.After(known.Round)", "!ok || !row.Round.Equal(known.Round)"}},
		{"an unreadable table is no empty one", read, []string{"if err != nil {\n\t\treturn nil, err\n\t}\n\tif rowsErr", "_ = err\n\tif rowsErr"}},
		{"a new address begins anew", read, []string{"\tv.forgetMoved()\n", ""}},
		{"a record of another address is skipped", batch, []string{"if !ok || !probed(server, row) {", "if !ok {"}},
		{"at a new address no streak goes on", rows, []string{"\tif r.Moved || r.Gap {\n\t\tu.Set(count", "\tif r.Gap {\n\t\tu.Set(count"}},
		{"a failing group fails its own records", batch, []string{"if failed[rec.Row.Group] {", "if len(failed) > 0 {"}},
		{"a failing group fails them", batch, []string{"failed[name] = true", "failed[name] = false"}},
		{"a bad record spoils no other", batch, []string{"r.bury(ctx, rec, one, err)", "return events.DynamoDBEventResponse{}"}},
		{"a failed announcement fails no pass", batch, []string{"r.Log.Error(\"changes not announced\"", "panic(err); r.Log.Error(\"changes not announced\""}},
		{"reads are strongly consistent", queries, []string{"in.ConsistentRead = aws.Bool(true)", "in.ConsistentRead = aws.Bool(false)"}},
		{"an older probe does not replace a newer row", rows, []string{"OR #round < :round", "OR #round <= :round"}},
		{"an older state does not replace a newer one", states, []string{"OR #since <= :since", "OR #since > :since"}},
		{"a state is written again after a lost answer", states, []string{"OR #since <= :since", "OR #since < :since"}},
		{"the transition is stored with the state", states, []string{"if err := h.saveTransition(ctx, group, t); err != nil {\n\t\treturn err\n\t}\n\titem", "item"}},
	}
}

// suites are the tests that may notice, the quickest first.
func suites(file string) []string {
	own := "./" + filepath.Dir(file)
	return []string{own, "./pkg/reconciler", "./pkg/reconciler/simulation"}
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

func TestEveryRuleIsTested(t *testing.T) {
	if os.Getenv("MUTATE") == "" {
		t.Skip("MUTATE is not set")
	}
	survivors := 0
	for _, m := range mutants() {
		killer, err := m.run(t.TempDir())
		switch {
		case err != nil:
			t.Errorf("%s: %v", m.rule, err)
		case killer == "":
			survivors++
			t.Errorf("survives: %s (%s)", m.rule, m.file)
		default:
			fmt.Printf("%-60s %s\n", m.rule, killer)
		}
	}
	fmt.Printf("%d rules broken, %d not noticed\n", len(mutants()), survivors)
}

// The table stays true when the code changes.
func TestEveryEditFits(t *testing.T) {
	for _, m := range mutants() {
		if _, err := m.broken(); err != nil {
			t.Errorf("%s: %v", m.rule, err)
		}
	}
}

// broken is the text of the file with the edits made.
func (m mutant) broken() (string, error) {
	source, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	text := string(source)
	for i := 0; i < len(m.edits); i += 2 {
		if n := strings.Count(text, m.edits[i]); n != 1 {
			return "", fmt.Errorf("%q is %d times in %s", m.edits[i], n, m.file)
		}
		text = strings.Replace(text, m.edits[i], m.edits[i+1], 1)
	}
	return text, nil
}

// run makes the edits in a copy of the file that the compiler sees instead of
// it, and returns the test that goes red; "" if none does.
func (m mutant) run(dir string) (killer string, err error) {
	text, err := m.broken()
	if err != nil {
		return "", err
	}
	broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(broken, []byte(text), 0o600); err != nil {
		return "", err
	}
	original, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": {original: broken}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		return "", err
	}
	for _, suite := range suites(m.file) {
		args := []string{"test", "-overlay", overlay, "-vet=off", "-count=1", suite}
		switch suite {
		case "./pkg/health", "./pkg/balancer", "./pkg/reconciler": // no example of rapid's is to be kept
			args = append(args, "-rapid.nofailfile")
		}
		test := exec.Command("go", args...)
		test.Dir = root
		test.Env = append(os.Environ(), "HISTORIES=3000", "MUTATE=")
		var out bytes.Buffer
		test.Stdout, test.Stderr = &out, &out
		if test.Run() == nil {
			continue
		}
		if strings.Contains(out.String(), "[build failed]") {
			return "", fmt.Errorf("does not compile: %s", out.String())
		}
		if found := failedTest.FindStringSubmatch(out.String()); found != nil {
			return suite + " " + found[1], nil
		}
		return suite + " (panic)", nil
	}
	return "", nil
}
