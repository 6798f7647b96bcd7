package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"radwitness/pkg/doctor"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/operator"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

var update = flag.Bool("update", false, "write docs/schema anew")

const schemaDir = "../../docs/schema"

// outputs are what the commands print with -json, by the name of the schema.
func outputs() map[string]any {
	return map[string]any{
		"status":   operator.Report{},
		"servers":  operator.ServersReport{},
		"plan":     reconciler.PlanReport{},
		"timeline": operator.Timelines{},
		"drain":    operator.Carried{}, // and undrain
		"doctor":   doctor.Report{},
	}
}

func TestSchemasAreUpToDate(t *testing.T) {
	for name, output := range outputs() {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(schemaOf(t, output)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(schemaDir, name+".json")
		if *update {
			if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s does not fit the types (%v): run go test ./functions/reconciler -update", file, err)
		}
	}
}

// schemaOf describes a type, in the words of its comments.
func schemaOf(t *testing.T, v any) *invopop.Schema {
	t.Helper()
	r := &invopop.Reflector{Anonymous: true, Mapper: words}
	for _, dir := range []string{"doctor", "operator", "reconciler", "balancer"} {
		if err := r.AddGoComments("radwitness/pkg/"+dir, "../../pkg/"+dir); err != nil {
			t.Fatal(err)
		}
	}
	return r.Reflect(v)
}

// words are the types that have a few values only.
func words(t reflect.Type) *invopop.Schema {
	values := map[reflect.Type][]any{
		reflect.TypeFor[fleet.Mode]():        {fleet.Enforce, fleet.Observe},
		reflect.TypeFor[health.Case]():       {health.CaseServing, health.CaseDoubt, health.CaseRecovering, health.CaseOutage},
		reflect.TypeFor[health.Membership](): {health.In, health.Out, health.Keep},
		reflect.TypeFor[health.Status]():     {health.Unknown, health.Up, health.Down, health.HoldDown},
		reflect.TypeFor[health.Standing](): {
			health.StandingDrained, health.StandingStale, health.StandingUnknown, health.StandingSolid, health.StandingInDoubt,
			health.StandingHoldDown, health.StandingDown,
		},
		reflect.TypeFor[doctor.Level](): {doctor.OK, doctor.Warn, doctor.Fail},
		reflect.TypeFor[store.Pass]():   {store.PassPending, store.PassDone, store.PassFailed},
		reflect.TypeFor[operator.MarkKind](): {
			operator.MarkTransition, operator.MarkRegister, operator.MarkDeregister, operator.MarkWithheld,
			operator.MarkFailOpenBegin, operator.MarkFailOpenEnd, operator.MarkDrain, operator.MarkUndrain,
		},
	}
	for _, o := range health.Outcomes() {
		outcome := reflect.TypeFor[health.Outcome]()
		values[outcome] = append(values[outcome], o)
	}
	if list, ok := values[t]; ok {
		return &invopop.Schema{Type: "string", Enum: list}
	}
	return nil
}

// What every command really prints is as its schema says.
func TestOutputsFitTheirSchemas(t *testing.T) {
	d := deploy(t)
	d.rounds(t, "aaa", "ara", "ara", "ara", "aaa")
	d.removeByHand(t, "10.0.1.10")
	for _, c := range []struct {
		schema string
		args   []string
		code   int
	}{
		{"plan", []string{"plan"}, exitAttention},
		{"timeline", []string{"timeline", "-since", "1s"}, exitFine}, // in which nothing happened
		{"drain", []string{"drain", "ise-3", "-for", "1h", "-reason", "patching", "-wait", "0", "-force"}, exitFine},
		{"status", []string{"status"}, exitFine},
		{"servers", []string{"servers"}, exitFine},
		{"timeline", []string{"timeline", "-since", "1h"}, exitFine},
		{"drain", []string{"undrain", "ise-3", "-wait", "0"}, exitFine},
	} {
		code, out, errs := d.run(t, append(c.args, "-json")...)
		if code != c.code || errs != "" {
			t.Errorf("%v: exit code %d, want %d; stderr %s", c.args, code, c.code, errs)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(out)))
		if err != nil {
			t.Fatalf("%v: %v\n%s", c.args, err, out)
		}
		if err := compile(t, c.schema).Validate(doc); err != nil {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}

// A schema refuses what is not of its command.
func TestSchemasRefuse(t *testing.T) {
	for name := range outputs() {
		for _, text := range []string{`{}`, `[]`, `{"groups": 1}`} {
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(text)))
			if err != nil {
				t.Fatal(err)
			}
			if compile(t, name).Validate(doc) == nil {
				t.Errorf("the schema of %s accepts %s", name, text)
			}
		}
	}
}

func compile(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile(filepath.Join(schemaDir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
