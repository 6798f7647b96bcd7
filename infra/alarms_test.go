package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"radwitness/pkg/fleet"
	"radwitness/pkg/telemetry"
)

func TestAlarms(t *testing.T) {
	f := testFleet()
	f.Groups[0].Servers[1].Checks[0].Method = fleet.PEAP // one that sees a certificate
	tmpl := synthTemplate(t, f)
	// What each alarm watches and when it rings.
	want := map[string]string{
		"radwitness-no-fresh-probe-vpn-auth":      "success_rate vpn-auth SampleCount < 1 for 3x60s, missing breaching",
		"radwitness-no-pass-vpn-auth":             "up vpn-auth SampleCount < 1 for 5x60s, missing breaching",
		"radwitness-fail-open-vpn-auth":           "fail_open vpn-auth Maximum >= 1 for 1x60s, missing ignore",
		"radwitness-server-down-vpn-auth":         "down vpn-auth Maximum >= 1 for 1x60s, missing ignore",
		"radwitness-passes-fail-vpn-auth":         "errors vpn-auth Sum >= 1 for 3x60s, missing notBreaching",
		"radwitness-no-fresh-probe-lab":           "success_rate lab SampleCount < 1 for 3x60s, missing breaching",
		"radwitness-no-pass-lab":                  "up lab SampleCount < 1 for 5x420s, missing breaching",
		"radwitness-fail-open-lab":                "fail_open lab Maximum >= 1 for 1x60s, missing ignore",
		"radwitness-server-down-lab":              "down lab Maximum >= 1 for 1x60s, missing ignore",
		"radwitness-passes-fail-lab":              "errors lab Sum >= 1 for 3x420s, missing notBreaching",
		"radwitness-certificate-expires-vpn-auth": "days_to_expiry vpn-auth Minimum < 14 for 1x3600s, missing ignore",
		"radwitness-prober-errors":                "Errors ${Prober} Sum >= 1 for 1x300s, missing notBreaching",
		"radwitness-reconciler-errors":            "Errors ${Reconciler} Sum >= 1 for 1x300s, missing notBreaching",
		"radwitness-iterator-age":                 "IteratorAge ${Reconciler} Maximum >= 60000 for 3x60s, missing notBreaching",
		"radwitness-prober-failures":              "ApproximateNumberOfMessagesVisible ${ProberFailures.QueueName} Maximum >= 1 for 1x60s, missing notBreaching",
		"radwitness-reconciler-failures":          "ApproximateNumberOfMessagesVisible ${ReconcilerFailures.QueueName} Maximum >= 1 for 1x60s, missing notBreaching",
	}
	operators := map[any]string{"GreaterThanOrEqualToThreshold": ">=", "LessThanThreshold": "<"}
	got := map[string]string{}
	var sections []string
	for _, a := range tmpl.ofType("AWS::CloudWatch::Alarm") {
		name := a.get("AlarmName").(string)
		got[name] = fmt.Sprintf("%v %v %v %s %v for %vx%vs, missing %v",
			a.get("MetricName"), a.get("Dimensions", "0", "Value"), a.get("Statistic"), operators[a.get("ComparisonOperator")],
			a.get("Threshold"), a.get("EvaluationPeriods"), a.get("Period"), a.get("TreatMissingData"))
		topic := list{"${AlarmTopic}"}
		if !cmp.Equal(a.get("AlarmActions"), any(topic)) || !cmp.Equal(a.get("OKActions"), any(topic)) {
			t.Errorf("%s tells %v and %v, want the topic of both alarm and recovery", name, a.get("AlarmActions"), a.get("OKActions"))
		}
		description, _ := a.get("AlarmDescription").(string)
		_, section, ok := strings.Cut(description, ". What to do: docs/operate.md#")
		if !ok || !strings.HasPrefix(strings.TrimPrefix(name, "radwitness-"), section) {
			t.Errorf("%s is described as %q, want a sentence and the place in the runbook", name, description)
		}
		sections = append(sections, section)
	}
	slices.Sort(sections)
	if diff := cmp.Diff(runbook(t), slices.Compact(sections)); diff != "" {
		t.Errorf("sections of the runbook (-there +wanted):\n%s", diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alarms (-want +got):\n%s", diff)
	}
	tmpl.keep(t, []promise{{"AlarmTopicPolicy", "PolicyDocument/Statement", list{
		object{
			"Sid": "AllowPublishThroughSSLOnly", "Effect": "Deny", "Action": "sns:Publish", "Resource": "${AlarmTopic}",
			"Principal": "*", "Condition": object{"Bool": object{"aws:SecureTransport": "false"}},
		},
		object{
			"Sid": "AlarmsPublish", "Effect": "Allow", "Action": "sns:Publish", "Resource": "${AlarmTopic}",
			"Principal": object{"Service": "cloudwatch.amazonaws.com"},
			"Condition": object{"ArnLike": object{"aws:SourceArn": "arn:aws:cloudwatch:us-east-1:111122223333:alarm:radwitness-*"}},
		},
	}}})
	for _, s := range tmpl.ofType("AWS::SNS::Subscription") {
		if s.get("Protocol") != "email" || s.get("Endpoint") != "noc@example.com" {
			t.Errorf("subscription %v, want email to noc@example.com", s)
		}
	}
}

// runbook lists the headings under Alarms in docs/operate.md, sorted, and sees
// that each section answers the same questions.
func runbook(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, alarms, _ := strings.Cut(string(page), "\n## Alarms\n")
	alarms, _, _ = strings.Cut(alarms, "\n## ")
	var headings []string
	for i, section := range strings.Split(alarms, "\n### ") {
		heading, text, _ := strings.Cut(section, "\n")
		if i == 0 {
			continue // the introduction
		}
		headings = append(headings, heading)
		for _, question := range []string{"It means", "Users notice", "Look at", "By itself"} {
			if !strings.Contains(text, "\n**"+question+"**") {
				t.Errorf("section %s of the runbook has no **%s**", heading, question)
			}
		}
	}
	slices.Sort(headings)
	return headings
}

// The dashboard must show, for every group, states, membership, latency and
// changes, under the names that the functions emit.
func TestDashboard(t *testing.T) {
	body := synthTemplate(t, testFleet()).get("Resources", "Dashboard", "Properties", "DashboardBody").(string)
	var dashboard struct {
		Widgets []struct {
			Type       string
			Properties struct {
				Title   string
				Query   string
				Metrics [][]any
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &dashboard); err != nil {
		t.Fatalf("reading dashboard body: %v", err)
	}
	shown := map[string]map[string]bool{}
	transitions := false
	for _, w := range dashboard.Widgets {
		for _, m := range w.Properties.Metrics {
			if len(m) >= 4 && m[0] == telemetry.Namespace && m[2] == telemetry.DimensionGroup {
				group := m[3].(string)
				if shown[group] == nil {
					shown[group] = map[string]bool{}
				}
				shown[group][m[1].(string)] = true
			}
		}
		transitions = transitions || w.Type == "log" && strings.Contains(w.Properties.Query, "SOURCE '${ReconcilerLogs}'")
	}
	want := []string{"changes", "down", "fail_open", "held", "latency_ms", "reconcile_lag_ms", "registered", "success_rate", "up"}
	for _, group := range []string{"vpn-auth", "lab"} {
		if got := slices.Sorted(maps.Keys(shown[group])); !slices.Equal(got, want) {
			t.Errorf("dashboard shows of %s %v, want %v", group, got, want)
		}
	}
	if !transitions {
		t.Error("dashboard has no query for transitions in the reconciler's log")
	}
}
