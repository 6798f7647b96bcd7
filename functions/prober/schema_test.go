package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"radwitness/pkg/health"
	"radwitness/pkg/nas"
)

var update = flag.Bool("update", false, "write docs/schema/fleet-test.json anew")

const schemaFile = "../../docs/schema/fleet-test.json"

func TestSchemaIsUpToDate(t *testing.T) {
	r := &invopop.Reflector{Anonymous: true, Mapper: words}
	if err := r.AddGoComments("radwitness/pkg/nas", "../../pkg/nas"); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r.Reflect(nas.Report{})); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(schemaFile); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s does not fit the types (%v): run go test ./functions/prober -update", schemaFile, err)
	}
}

// words are the types that have a few values only.
func words(t reflect.Type) *invopop.Schema {
	switch t {
	case reflect.TypeFor[nas.Strategy]():
		return enum(nas.Strategies())
	case reflect.TypeFor[health.Outcome]():
		return enum(health.Outcomes())
	}
	return nil
}

func enum[T any](list []T) *invopop.Schema {
	s := &invopop.Schema{Type: "string"}
	for _, v := range list {
		s.Enum = append(s.Enum, v)
	}
	return s
}

// validate checks what the command has printed against the schema.
func validate(t *testing.T, output string) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(output)))
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if err := schema.Validate(doc); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestSchemaRefuses(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{}`, `[]`, `{"views": 1}`} {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(text)))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(doc) == nil {
			t.Errorf("the schema accepts %s", text)
		}
	}
}
