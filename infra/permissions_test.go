package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/fleet"
)

var update = flag.Bool("update", false, "write the golden files anew")

const permissionsFile = "testdata/permissions.txt"

// Every pair of action and resource that a role has is in a file, so that no
// permission comes or widens unseen.
func TestPermissions(t *testing.T) {
	got := permissions(synthTemplate(t, testFleet()))
	if *update {
		if err := os.WriteFile(permissionsFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(permissionsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("permissions differ from %s (-want +got); if they are meant so, run go test ./infra -run TestPermissions -update:\n%s", permissionsFile, diff)
	}
}

// permissions lists what the roles may do, one action and resource a line.
func permissions(tmpl template) string {
	var lines []string
	for role, properties := range tmpl.ofType("AWS::IAM::Role") {
		if properties.get("ManagedPolicyArns") != nil {
			lines = append(lines, role+" has managed policies")
		}
		for _, p := range properties.get("Policies").([]any) {
			for _, s := range template(p.(map[string]any)).get("PolicyDocument", "Statement").([]any) {
				statement := template(s.(map[string]any))
				condition := ""
				if c := statement.get("Condition"); c != nil {
					text, _ := json.Marshal(c) // came from JSON
					condition = " if " + string(text)
				}
				for _, action := range oneOrMore(statement.get("Action")) {
					for _, resource := range oneOrMore(statement.get("Resource")) {
						lines = append(lines, fmt.Sprintf("%s %s %s on %s%s", role, statement.get("Effect"), action, resource, condition))
					}
				}
			}
		}
	}
	if n := len(tmpl.ofType("AWS::IAM::Policy")) + len(tmpl.ofType("AWS::IAM::ManagedPolicy")); n > 0 {
		lines = append(lines, fmt.Sprintf("%d policies outside the roles", n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func oneOrMore(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

// A fleet that is only observed must not be able to change anything.
func TestObserveModeMayNotChangeTargets(t *testing.T) {
	f := testFleet()
	for i := range f.Groups {
		f.Groups[i].Mode = fleet.Observe
	}
	if got := permissions(synthTemplate(t, f)); strings.Contains(got, "RegisterTargets") || strings.Contains(got, "DeregisterTargets") {
		t.Errorf("a fleet in observe mode may change targets:\n%s", got)
	}
}

func TestTrust(t *testing.T) {
	tmpl := synthTemplate(t, testFleet())
	trust := func(service string, condition object) any {
		s := object{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": object{"Service": service}}
		if condition != nil {
			s["Condition"] = condition
		}
		return list{s}
	}
	tmpl.keep(t, []promise{
		{"ProberRole", "AssumeRolePolicyDocument/Statement", trust("lambda.amazonaws.com", nil)},
		{"ReconcilerRole", "AssumeRolePolicyDocument/Statement", trust("lambda.amazonaws.com", nil)},
		{"SchedulerRole", "AssumeRolePolicyDocument/Statement", trust("scheduler.amazonaws.com", object{"StringEquals": object{
			"aws:SourceAccount": "111122223333",
			"aws:SourceArn":     "arn:aws:scheduler:us-east-1:111122223333:schedule-group/radwitness",
		}})},
	})
}
