package fleet

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"radwitness/pkg/health"
)

var update = flag.Bool("update", false, "write testdata/fleet.schema.json anew")

const (
	schemaFile = "../../testdata/fleet.schema.json"
	sampleFile = "../../testdata/fleet.yaml"
)

func TestSchemaFileIsUpToDate(t *testing.T) {
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(generateSchema(t)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := readFile(t, schemaFile); !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s does not fit the forms: run go test ./pkg/fleet -update", schemaFile)
	}
}

func TestSchemaAcceptsWhatParseAccepts(t *testing.T) {
	schema := compileSchema(t)
	files := map[string]string{
		"sample":             string(readFile(t, sampleFile)),
		"minimal":            minimal,
		"off as a bool":      edit("name: g", "name: g\n    fail_open: false"),
		"off as a word":      edit("name: g", "name: g\n    fail_open: off"),
		"percentage":         edit("name: g", "name: g\n    fail_open: {below: 100%}"),
		"override in server": edit("name: a", "name: a, method: chap, port: 1, message_authenticator: off, interval: 7.5s"),
		"long duration":      edit("name: g", "name: g\n    health: {hold_down_max: 1h30m}"),
		"no failures":        edit("name: a", "name: a, failure_on: []"),
		"checks":             edit("name: a", "name: a, checks: [pap, {method: accounting, port: 1}]"),
		"attributes":         edit("name: a", `name: a, attributes: {Service-Type: Login-User, NAS-Port: 7, Cisco-AVPair: [a=b, "1"], Class: "7"}`),
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(sampleFile, []byte(file), nil); err != nil {
				t.Errorf("Parse: %v", err)
			}
			if err := schema.Validate(asJSON(t, file)); err != nil {
				t.Errorf("schema: %v", err)
			}
		})
	}
}

func TestSchemaRefusesWhatParseRefuses(t *testing.T) {
	schema := compileSchema(t)
	files := map[string]string{
		"unknown key":           edit("name: g", "name: g\n    nam: x"),
		"unknown key in server": edit("name: a", "name: a, nam: x"),
		"missing address":       edit(", address: 10.0.0.1", ""),
		"no groups":             "groups: []",
		"duration without unit": edit("name: a", "name: a, interval: 10"),
		"unknown word":          edit("name: a", "name: a, method: eap"),
		"alive":                 edit("name: a", "name: a, healthy_on: [alive]"),
		"outcome twice":         edit("name: a", "name: a, healthy_on: [accept, accept]"),
		"port":                  edit("name: a", "name: a, port: 65536"),
		"below zero":            edit("name: g", "name: g\n    fail_open: {below: 0}"),
		"below 101%":            edit("name: g", "name: g\n    fail_open: {below: 101%}"),
		"name":                  edit("name: g", "name: g/h"),
		"name of credentials":   edit("  c: {", "  c#d: {}\n  c: {"),
		"target group ARN":      edit(arn, "vpn"),
		"two sources":           edit("{env: C}", "{env: C, ssm: /c}"),
		"no source":             edit("{env: C}", "{}"),
		"type":                  edit("name: g", "name: g\n    prune: maybe"),
		"list for a mapping":    edit("name: g", "name: g\n    probe: []"),
		"no check":              edit("name: a", "name: a, checks: []"),
		"check without method":  edit("name: a", "name: a, checks: [{port: 1}]"),
		"unknown check":         edit("name: a", "name: a, checks: [smoke]"),
		"attribute of nothing":  edit("name: a", "name: a, attributes: {Class: []}"),
		"attribute mapping":     edit("name: a", "name: a, attributes: {Class: {a: b}}"),
		"empty NAS-Identifier":  edit("name: a", `name: a, nas_identifier: ""`),
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("fleet.yaml", []byte(file), nil); err == nil {
				t.Error("Parse accepts it")
			}
			if err := schema.Validate(asJSON(t, file)); err == nil {
				t.Error("the schema accepts it")
			}
		})
	}
}

// TestSampleShowsEveryKey keeps the sample from going stale.
func TestSampleShowsEveryKey(t *testing.T) {
	r := newReport(sampleFile)
	var form fileForm
	if !r.decodeYAML(readFile(t, sampleFile), &form) || len(r.errs) > 0 {
		t.Fatal(r.errs)
	}
	shown := map[string]bool{} // by form and key
	var visit func(v reflect.Value, path string)
	visit = func(v reflect.Value, path string) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				visit(v.Elem(), path)
			}
		case reflect.Slice:
			for i := range v.Len() {
				visit(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
			}
		case reflect.Map:
			for _, k := range v.MapKeys() {
				visit(v.MapIndex(k), join(path, k.String()))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				key, isKey := f.Tag.Lookup("yaml")
				switch {
				case f.Anonymous:
					visit(v.Field(i), path)
				case isKey:
					id := v.Type().Name() + "." + key
					_, given := r.lines[join(path, key)]
					shown[id] = shown[id] || given
					visit(v.Field(i), join(path, key))
				}
			}
		}
	}
	visit(reflect.ValueOf(form), "")
	if !shown["probeForm.nas_identifier"] || !shown["serverForm.admin"] {
		t.Error("the walk missed keys")
	}
	for id, ok := range shown {
		// What cannot stand beside another key is shown as a comment.
		_, key, _ := strings.Cut(id, ".")
		if !ok && !bytes.Contains(readFile(t, sampleFile), []byte("\n  # "+key+": ")) {
			t.Errorf("%s does not show %s", sampleFile, id)
		}
	}
}

// TestSampleShowsTheDefaults holds the sample to its word that it does.
func TestSampleShowsTheDefaults(t *testing.T) {
	r := newReport(sampleFile)
	var form fileForm
	r.decodeYAML(readFile(t, sampleFile), &form)
	want := builtinDefaults()
	want.Probe.Port = new(1812)
	if !reflect.DeepEqual(form.Defaults, want) {
		t.Errorf("the sample's defaults are not the built-in ones")
	}
}

// generateSchema builds the JSON Schema of fleet.yaml from the forms: structure
// and limits from their types and tags, descriptions from their comments, words,
// patterns and defaults from what Parse itself uses.
func generateSchema(t *testing.T) *invopop.Schema {
	t.Helper()
	comments := formComments(t)
	reflector := invopop.Reflector{
		Anonymous:                  true,
		ExpandedStruct:             true,
		FieldNameTag:               "yaml",
		RequiredFromJSONSchemaTags: true,
		Namer:                      func(typ reflect.Type) string { return strings.TrimSuffix(typ.Name(), "Form") },
		LookupComment: func(typ reflect.Type, field string) string {
			return comments[strings.TrimSuffix(typ.Name()+"."+field, ".")]
		},
		Mapper: leafSchema,
	}
	schema := reflector.Reflect(fileForm{})
	schema.Title = "radwitness fleet"

	set := func(def, key string, change func(*invopop.Schema)) {
		property, ok := schema.Definitions[def].Properties.Get(key)
		if !ok {
			t.Fatalf("the schema has no %s.%s", def, key)
		}
		change(property)
	}
	for _, p := range []struct {
		def, key string
		pattern  *regexp.Regexp
	}{
		{"group", "name", namePattern},
		{"server", "name", namePattern},
		{"targetGroup", "arn", targetGroupARN},
		{"credential", "secrets_manager", secretPattern},
		{"credential", "ssm", parameterPattern},
		{"credential", "env", envPattern},
		{"deploy", "stack_name", stackNamePattern},
		{"deploy", "vpc_id", vpcPattern},
		{"deploy", "security_group_id", securityGroupPattern},
		{"deploy", "dynamodb_prefix_list_id", prefixListPattern},
		{"deploy", "alarm_topic", topicPattern},
		{"deploy", "alarm_email", emailPattern},
	} {
		set(p.def, p.key, func(s *invopop.Schema) { s.Pattern = p.pattern.String() })
	}
	defaults := builtinDefaults()
	for def, form := range map[string]any{
		"probe": &defaults.Probe, "server": &defaults.Probe, "health": &defaults.Health, "failOpen": defaults.FailOpen,
		"group": &overrideForm{Mode: new(defaultMode), ReconcileInterval: new(defaultReconcileInterval)},
		"deploy": &deployForm{
			StackName: new(defaultStackName), Architecture: new(defaultArchitecture), Schedule: new(defaultSchedule), Shards: new(defaultShards),
			ReserveConcurrency: new(defaultReserveConcurrency), LogRetentionDays: new(defaultLogRetentionDays), RetainTables: new(defaultRetainTables),
		},
	} {
		for _, f := range fields(reflect.TypeOf(form).Elem()) {
			if value := reflect.ValueOf(form).Elem().FieldByIndex(f.index); value.Kind() == reflect.Pointer && !value.IsNil() {
				set(def, f.name, func(s *invopop.Schema) { s.Default = defaultOf(value.Elem().Interface()) })
			}
		}
	}
	for _, key := range []string{"prune", "server_metrics"} {
		set("group", key, func(s *invopop.Schema) { s.Default = false })
	}
	for key, pattern := range map[string]*regexp.Regexp{
		"subnet_ids": subnetPattern, "availability_zones": zonePattern, "route_table_ids": routeTablePattern, "kms_keys": keyPattern,
	} {
		set("deploy", key, func(s *invopop.Schema) { s.Items.Pattern = pattern.String() })
	}
	set("deploy", "log_retention_days", func(s *invopop.Schema) {
		for _, days := range retentions() {
			s.Enum = append(s.Enum, days)
		}
	})
	schema.Definitions["check"] = &invopop.Schema{
		Description: schema.Definitions["check"].Description,
		AnyOf:       []*invopop.Schema{enum(methods()), withRequired(schema.Definitions["check"], "method")},
	}
	set("server", "admin", func(s *invopop.Schema) { s.Default = defaultAdmin })

	schema.Definitions["credential"].MinProperties = new(uint64(1))
	schema.Definitions["credential"].MaxProperties = new(uint64(1))
	credentials, _ := schema.Properties.Get("credentials")
	credentials.PropertyNames = &invopop.Schema{Pattern: namePattern.String()}
	mapping := schema.Definitions["failOpen"]
	schema.Definitions["failOpen"] = &invopop.Schema{
		Description: mapping.Description,
		AnyOf:       []*invopop.Schema{mapping, {Enum: []any{"off", false}}},
	}
	return schema
}

// leafSchema is the schema of a form that is one word or number, nil for others.
func leafSchema(typ reflect.Type) *invopop.Schema {
	switch typ {
	case reflect.TypeFor[Method]():
		return enum(methods())
	case reflect.TypeFor[Mode]():
		return enum(modes())
	case reflect.TypeFor[Admin]():
		return enum(admins())
	case reflect.TypeFor[MessageAuthenticator]():
		return enum(messageAuthenticators())
	case reflect.TypeFor[health.Outcome]():
		return enum(listable())
	case reflect.TypeFor[Service]():
		return enum(services())
	case reflect.TypeFor[Architecture]():
		return enum(architectures())
	case reflect.TypeFor[duration]():
		return &invopop.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`}
	case reflect.TypeFor[attributeForm]():
		one := []*invopop.Schema{{Type: "string", MinLength: new(uint64(1))}, {Type: "integer"}}
		return &invopop.Schema{AnyOf: append(one, &invopop.Schema{Type: "array", MinItems: new(uint64(1)), Items: &invopop.Schema{AnyOf: one}})}
	case reflect.TypeFor[floor]():
		return &invopop.Schema{AnyOf: []*invopop.Schema{
			{Type: "integer", Minimum: "1"},
			{Type: "string", Pattern: `^([1-9][0-9]?|100)%$`},
		}}
	}
	return nil
}

// withRequired is a schema that also asks for a property.
func withRequired(s *invopop.Schema, property string) *invopop.Schema {
	s.Required = append(s.Required, property)
	return s
}

func enum[T ~string](words []T) *invopop.Schema {
	s := &invopop.Schema{Type: "string"}
	for _, w := range words {
		s.Enum = append(s.Enum, string(w))
	}
	return s
}

// defaultOf returns a default as it is written in JSON.
func defaultOf(v any) any {
	switch v := v.(type) {
	case duration:
		return v.String()
	case floor:
		return v.count
	}
	return v
}

// formComments returns the comments of the forms, by Type and Type.Field.
func formComments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "form.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	oneLine := func(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		spec := gen.Specs[0].(*ast.TypeSpec)
		comments[spec.Name.Name] = oneLine(gen.Doc)
		if form, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range form.Fields.List {
				for _, name := range field.Names {
					comments[spec.Name.Name+"."+name.Name] = oneLine(field.Doc)
				}
			}
		}
	}
	return comments
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(readFile(t, schemaFile)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("fleet.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("fleet.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// asJSON returns a YAML file in the form that the validator takes.
func asJSON(t *testing.T, file string) any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
