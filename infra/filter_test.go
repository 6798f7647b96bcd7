package main

import (
	"encoding/json"
	"fmt"
	"testing"
)

// The records of table probes' stream, and whether the reconciler needs them.
func TestStreamFilterPassesWhatTheReconcilerNeeds(t *testing.T) {
	properties := synthTemplate(t, testFleet()).ofType("AWS::Lambda::EventSourceMapping")["ProbesStream"]
	var patterns []map[string]any
	for _, f := range properties.get("FilterCriteria", "Filters").([]any) {
		var pattern map[string]any
		if err := json.Unmarshal([]byte(f.(map[string]any)["Pattern"].(string)), &pattern); err != nil {
			t.Fatalf("reading filter pattern: %v", err)
		}
		patterns = append(patterns, pattern)
	}
	const (
		keys = `"Keys":{"group":{"S":"vpn-auth"},"server":{"S":"ise-1"}}`
		up   = `{"group":{"S":"vpn-auth"},"server":{"S":"ise-1"},"outcome":{"S":"accept"},"consecutive_failures":{"N":"0"},"consecutive_successes":{"N":"7"},"round":{"S":"2026-11-30T08:00:00.000Z"}}`
		next = `{"group":{"S":"vpn-auth"},"server":{"S":"ise-1"},"outcome":{"S":"accept"},"consecutive_failures":{"N":"0"},"consecutive_successes":{"N":"8"},"round":{"S":"2026-11-30T08:00:10.000Z"}}`
		bad  = `{"group":{"S":"vpn-auth"},"server":{"S":"ise-1"},"outcome":{"S":"timeout"},"consecutive_failures":{"N":"1"},"consecutive_successes":{"N":"0"},"round":{"S":"2026-11-30T08:00:10.000Z"}}`
		ours = `{"group":{"S":"vpn-auth"},"server":{"S":"ise-1"},"outcome":{"S":"prober_error"},"consecutive_failures":{"N":"0"},"consecutive_successes":{"N":"7"},"round":{"S":"2026-11-30T08:00:10.000Z"}}`
	)
	for name, test := range map[string]struct {
		record string
		needed bool
	}{
		"first probe of a server":             {`{"eventName":"INSERT","dynamodb":{` + keys + `,"NewImage":` + up + `}}`, true},
		"first probe, a failure":              {`{"eventName":"INSERT","dynamodb":{` + keys + `,"NewImage":` + bad + `}}`, true},
		"another success, ends a hold-down":   {`{"eventName":"MODIFY","dynamodb":{` + keys + `,"OldImage":` + up + `,"NewImage":` + next + `}}`, true},
		"a failure":                           {`{"eventName":"MODIFY","dynamodb":{` + keys + `,"OldImage":` + up + `,"NewImage":` + bad + `}}`, true},
		"a success after failures":            {`{"eventName":"MODIFY","dynamodb":{` + keys + `,"OldImage":` + bad + `,"NewImage":` + next + `}}`, true},
		"our own fault, makes a server stale": {`{"eventName":"MODIFY","dynamodb":{` + keys + `,"OldImage":` + up + `,"NewImage":` + ours + `}}`, true},
		"a record that cannot be read":        {`{"eventName":"MODIFY","dynamodb":{` + keys + `,"NewImage":{"group":{"S":"vpn-auth"}}}}`, true},
		"a row deleted by hand":               {`{"eventName":"REMOVE","dynamodb":{` + keys + `,"OldImage":` + up + `}}`, false},
		"a row that expired": {
			`{"eventName":"REMOVE","userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},"dynamodb":{` + keys + `,"OldImage":` + up + `}}`, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var record map[string]any
			if err := json.Unmarshal([]byte(test.record), &record); err != nil {
				t.Fatal(err)
			}
			passes := false
			for _, p := range patterns {
				match, err := matches(p, record)
				if err != nil {
					t.Fatal(err)
				}
				passes = passes || match
			}
			if passes != test.needed {
				t.Errorf("passes %v, want %v", passes, test.needed)
			}
		})
	}
}

// matches applies a filter pattern to a record as Lambda does: the fields of a
// pattern must all match, and a field matches if one of its rules does. It
// refuses rules that it does not know rather than guess what Lambda makes of
// them.
func matches(pattern, record map[string]any) (bool, error) {
	all := true
	for key, rules := range pattern {
		value, present := record[key]
		switch rules := rules.(type) {
		case map[string]any:
			inner, _ := value.(map[string]any)
			match, err := matches(rules, inner)
			if err != nil {
				return false, err
			}
			all = all && match
		case []any:
			match, err := anyRule(rules, value, present)
			if err != nil {
				return false, fmt.Errorf("%s: %w", key, err)
			}
			all = all && match
		default:
			return false, fmt.Errorf("%s: rules must be in a list, not %v", key, rules)
		}
	}
	return all, nil
}

func anyRule(rules []any, value any, present bool) (bool, error) {
	_, branch := value.(map[string]any)
	some := false
	for _, rule := range rules {
		switch rule := rule.(type) {
		case string:
			some = some || present && value == rule
		case map[string]any:
			exists, ok := rule["exists"].(bool)
			if !ok || len(rule) != 1 {
				return false, fmt.Errorf("rule %v is not known here", rule)
			}
			// Only a leaf can exist: of an attribute that is its type key, not its name.
			some = some || exists == (present && !branch)
		default:
			// A number in DynamoDB's JSON is text, so a bare number never matches.
			return false, fmt.Errorf("rule %v is neither text nor an operator", rule)
		}
	}
	return some, nil
}

func TestMatches(t *testing.T) {
	record := map[string]any{"eventName": "MODIFY", "dynamodb": map[string]any{
		"NewImage": map[string]any{"outcome": map[string]any{"S": "accept"}, "streak": map[string]any{"N": "3"}},
	}}
	image := func(v map[string]any) map[string]any {
		return map[string]any{"dynamodb": map[string]any{"NewImage": v}}
	}
	exists := []any{map[string]any{"exists": true}}
	for name, test := range map[string]struct {
		pattern map[string]any
		want    bool
		err     bool
	}{
		"one of two":               {map[string]any{"eventName": []any{"INSERT", "MODIFY"}}, true, false},
		"none":                     {map[string]any{"eventName": []any{"REMOVE"}}, false, false},
		"value at its type key":    {image(map[string]any{"outcome": map[string]any{"S": []any{"accept"}}}), true, false},
		"a number is text":         {image(map[string]any{"streak": map[string]any{"N": []any{"3"}}}), true, false},
		"exists at the type key":   {image(map[string]any{"outcome": map[string]any{"S": exists}}), true, false},
		"exists at the attribute":  {image(map[string]any{"outcome": exists}), false, false},
		"numeric is not trusted":   {image(map[string]any{"streak": map[string]any{"N": []any{map[string]any{"numeric": []any{">", 0.0}}}}}), false, true},
		"bare number":              {image(map[string]any{"streak": map[string]any{"N": []any{3.0}}}), false, true},
		"rules outside of a list":  {map[string]any{"eventName": "MODIFY"}, false, true},
		"field that is not there":  {map[string]any{"userIdentity": map[string]any{"type": []any{"Service"}}}, false, false},
		"both fields must match":   {map[string]any{"eventName": []any{"MODIFY"}, "eventSource": []any{"x"}}, false, false},
		"absence of what is there": {map[string]any{"eventName": []any{map[string]any{"exists": false}}}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := matches(test.pattern, record)
			if got != test.want || (err != nil) != test.err {
				t.Errorf("matches: %v, %v; want %v, error %v", got, err, test.want, test.err)
			}
		})
	}
}
