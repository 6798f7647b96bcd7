package doctor

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"radwitness/pkg/balancer"
	"radwitness/pkg/credentials"
	"radwitness/pkg/store"
)

var update = flag.Bool("update", false, "write the checks into docs/doctor.md anew")

const (
	docFile    = "../../docs/doctor.md"
	policyFile = "../../docs/operator-policy.json"
	docBegin   = "<!-- written by go test ./pkg/doctor -update, from the checks themselves -->\n"
	docEnd     = "<!-- end -->\n"
)

// document writes the checks for docs/doctor.md.
func document() string {
	var b strings.Builder
	for _, s := range Sections() {
		fmt.Fprintf(&b, "\n### %s\n", s.Title)
		for _, c := range s.Checks {
			fmt.Fprintf(&b, "\n**%s.** %s\n*Otherwise:* %s\n", c.Name, c.Looks, c.Why)
			fmt.Fprintf(&b, "*Mend:* %s.", strings.TrimSuffix(plain(c.Mend), "."))
			switch {
			case strings.HasPrefix(c.Source, "https://datatracker.ietf.org/doc/html/rfc"):
				rfc := strings.NewReplacer("rfc", "RFC ", "#section-", " section ").Replace(c.Source[len("https://datatracker.ietf.org/doc/html/"):])
				fmt.Fprintf(&b, " [%s](%s)", rfc, c.Source)
			case strings.HasPrefix(c.Source, "https://"):
				fmt.Fprintf(&b, " [AWS](%s)", c.Source)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func TestDocumentIsUpToDate(t *testing.T) {
	text, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), docBegin)
	_, after, ok := strings.Cut(rest, docEnd)
	if !ok {
		t.Fatalf("%s has no place for the checks", docFile)
	}
	want := before + docBegin + document() + "\n" + docEnd + after
	if *update {
		if err := os.WriteFile(docFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s does not say what the checks do: run go test ./pkg/doctor -update", docFile)
	}
}

func TestChecksAreExplained(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Sections() {
		for _, c := range s.Checks {
			if names[c.Name] {
				t.Errorf("two checks are called %s", c.Name)
			}
			names[c.Name] = true
			for what, text := range map[string]string{"Looks": c.Looks, "Why": c.Why, "Mend": c.Mend} {
				if text == "" {
					t.Errorf("%s has no %s", c.Name, what)
				}
			}
			if c.Source == "" && c.Name != "not-checked" {
				t.Errorf("%s has no Source", c.Name)
			}
		}
	}
}

// The policy for operators names every action that is called, and none more than
// the other commands need.
func TestPolicyNamesEveryAction(t *testing.T) {
	want := []string{"dynamodb:DeleteItem", "dynamodb:PutItem"} // drain and undrain
	for prefix, api := range map[string][]reflect.Type{
		"elasticloadbalancing": {reflect.TypeFor[ELBv2](), reflect.TypeFor[balancer.ELBv2]()},
		"ec2":                  {reflect.TypeFor[balancer.EC2]()},
		"lambda":               {reflect.TypeFor[Lambda]()},
		"scheduler":            {reflect.TypeFor[Scheduler]()},
		"dynamodb":             {reflect.TypeFor[DynamoDB](), reflect.TypeFor[store.DynamoDB]()},
		"sqs":                  {reflect.TypeFor[SQS]()},
		"cloudwatch":           {reflect.TypeFor[CloudWatch]()},
		"secretsmanager":       {reflect.TypeFor[credentials.SecretsManagerAPI]()},
		"ssm":                  {reflect.TypeFor[credentials.SSMAPI]()},
	} {
		for _, methods := range api {
			for m := range methods.NumMethod() {
				// What writes is the functions' alone.
				if name := methods.Method(m).Name; !slices.Contains([]string{"RegisterTargets", "DeregisterTargets", "UpdateItem", "PutItem"}, name) {
					want = append(want, prefix+":"+name)
				}
			}
		}
	}
	slices.Sort(want)
	text, err := os.ReadFile(policyFile)
	if err != nil {
		t.Fatal(err)
	}
	var policy struct{ Statement []struct{ Action []string } }
	if err := json.Unmarshal(text, &policy); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range policy.Statement {
		got = append(got, s.Action...)
	}
	slices.Sort(got)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("the policy has %v, and what is called is %v", got, want)
	}
}
