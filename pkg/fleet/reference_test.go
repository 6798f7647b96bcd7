package fleet

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	invopop "github.com/invopop/jsonschema"

	"radwitness/pkg/docs"
)

const referencePage = "../../docs/configuration.md"

// TestReferenceIsUpToDate holds the reference to what Parse knows: keys, limits
// and defaults from the schema, the places where a section may stand from the
// forms, and the variables from the environment's own list.
func TestReferenceIsUpToDate(t *testing.T) {
	docs.Section(t, referencePage, "keys", keyReference(t), *update)
	docs.Section(t, referencePage, "variables", variableReference(t), *update)
}

// keyReference is a table of keys for each section of fleet.yaml.
func keyReference(t *testing.T) string {
	t.Helper()
	schema := generateSchema(t)
	variables := map[string]reflect.Value{}
	addVariables(variables, "", reflect.ValueOf(&overrideForm{}).Elem())
	var page strings.Builder
	described := map[string]bool{}
	for _, form := range sections() {
		name := strings.TrimSuffix(form.Name(), "Form")
		def := mapping(schema.Definitions[name])
		if form == reflect.TypeFor[fileForm]() {
			name, def = "fleet.yaml", schema
		}
		described[name] = true
		fmt.Fprintf(&page, "### %s\n\n%s\n\n", heading(name), schemaDescription(schema, name))
		if places := placesOf(form); len(places) > 0 {
			fmt.Fprintf(&page, "Stands at `%s`.\n\n", strings.Join(places, "`, `"))
		}
		var rows strings.Builder
		inner := false
		for pair := def.Properties.Oldest(); pair != nil; pair = pair.Next() {
			if embedded(form, pair.Key) {
				inner = true
				continue
			}
			text := pair.Value.Description
			if text == "" {
				t.Errorf("%s.%s has no description: write a comment in form.go", name, pair.Key)
			}
			if _, ok := variables[overrideOf(form, pair.Key)]; ok {
				text += " Variable `" + overrideOf(form, pair.Key) + "`."
			}
			fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", pair.Key, valueText(pair.Value), defaultText(def, pair.Key, pair.Value), text)
		}
		if rows.Len() > 0 {
			page.WriteString("| key | value | default | what it is |\n|---|---|---|---|\n" + rows.String() + "\n")
		}
		if inner {
			page.WriteString("All keys of [probe](#probe) too.\n\n")
		}
	}
	for name := range schema.Definitions {
		if !described[name] {
			t.Errorf("the reference leaves out %s", name)
		}
	}
	return page.String()
}

// sections lists the forms in the order of the reference.
func sections() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[fileForm](), reflect.TypeFor[defaultsForm](), reflect.TypeFor[probeForm](), reflect.TypeFor[healthForm](),
		reflect.TypeFor[failOpenForm](), reflect.TypeFor[credentialForm](), reflect.TypeFor[groupForm](), reflect.TypeFor[targetGroupForm](),
		reflect.TypeFor[serverForm](), reflect.TypeFor[checkForm](), reflect.TypeFor[deployForm](),
	}
}

// mapping is the alternative of a definition that is a mapping.
func mapping(def *invopop.Schema) *invopop.Schema {
	if def == nil || def.Properties != nil && def.Properties.Len() > 0 {
		return def
	}
	for _, other := range def.AnyOf {
		if other.Properties != nil {
			return other
		}
	}
	return def
}

func schemaDescription(schema *invopop.Schema, name string) string {
	if def, ok := schema.Definitions[name]; ok {
		return def.Description
	}
	return schema.Description
}

// placesOf lists the paths at which a form stands in the file; none for the file
// itself.
func placesOf(form reflect.Type) []string {
	var places []string
	var visit func(typ reflect.Type, path string)
	visit = func(typ reflect.Type, path string) {
		switch typ.Kind() {
		case reflect.Pointer:
			visit(typ.Elem(), path)
		case reflect.Slice:
			visit(typ.Elem(), path+"[]")
		case reflect.Map:
			visit(typ.Elem(), path+".NAME")
		case reflect.Struct:
			if typ == form && path != "" {
				places = append(places, path)
			}
			for i := range typ.NumField() {
				f := typ.Field(i)
				if key, ok := f.Tag.Lookup("yaml"); ok {
					visit(f.Type, strings.TrimPrefix(path+"."+key, "."))
				} else if f.Anonymous {
					visit(f.Type, path)
				}
			}
		}
	}
	visit(reflect.TypeFor[fileForm](), "")
	return places
}

// embedded tells whether a key comes from a form inside this one, which has a
// section of its own.
func embedded(form reflect.Type, key string) bool {
	for i := range form.NumField() {
		if form.Field(i).Tag.Get("yaml") == key {
			return false
		}
	}
	return true
}

// heading is the name of a definition as keys are written: targetGroup is
// target_group.
func heading(def string) string {
	var b strings.Builder
	for _, r := range def {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// overrideOf is the name that the variable of a key would have.
func overrideOf(form reflect.Type, key string) string {
	sections := map[reflect.Type]string{
		reflect.TypeFor[probeForm](): "probe", reflect.TypeFor[healthForm](): "health", reflect.TypeFor[failOpenForm](): "fail_open", reflect.TypeFor[groupForm](): "",
	}
	section, ok := sections[form]
	if !ok {
		return ""
	}
	return variable(join(section, key)).variable
}

// valueText says what may stand behind a key.
func valueText(s *invopop.Schema) string {
	switch {
	case s.Ref != "":
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		return "[" + heading(name) + "](#" + heading(name) + ")"
	case len(s.Enum) > 0:
		words := make([]string, len(s.Enum))
		for i, w := range s.Enum {
			words[i] = fmt.Sprintf("`%v`", w)
		}
		return strings.Join(words, " ")
	case len(s.AnyOf) > 0:
		var kinds []string
		for _, other := range s.AnyOf {
			if kind := valueText(other); !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
		return strings.Join(kinds, " or ")
	case s.Type == "array":
		return "list of " + valueText(s.Items)
	case s.Type == "object":
		return "mapping of names to " + valueText(s.AdditionalProperties)
	case s.Type == "boolean":
		return "`true` `false`"
	case s.Type == "integer" && s.Maximum != "":
		return "number, " + string(s.Minimum) + " to " + string(s.Maximum)
	case s.Type == "integer":
		return "number"
	case strings.Contains(s.Pattern, "µs"):
		return "duration"
	case strings.HasSuffix(s.Pattern, "%$"):
		return "percentage"
	}
	return "text"
}

// defaultText is a key's default, or that there must be a value.
func defaultText(def *invopop.Schema, key string, s *invopop.Schema) string {
	switch required := slices.Contains(def.Required, key); {
	case required && s.Default != nil:
		return fmt.Sprintf("required; without the section `%v`", s.Default)
	case required:
		return "required"
	case s.Default == nil:
		return ""
	}
	v := reflect.ValueOf(s.Default)
	if v.Kind() != reflect.Slice {
		return fmt.Sprintf("`%v`", s.Default)
	}
	words := make([]string, v.Len())
	for i := range words {
		words[i] = fmt.Sprint(v.Index(i))
	}
	return "`[" + strings.Join(words, ", ") + "]`"
}

// variableReference is a table of the variables that are no overrides, with the
// comments that stand above them.
func variableReference(t *testing.T) string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "environment.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	above := map[int]string{} // comments, by the line after them
	for _, c := range file.Comments {
		above[files.Position(c.End()).Line+1] = strings.Join(strings.Fields(c.Text()), " ")
	}
	texts := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			name, _ := strconv.Unquote(literal.Value)
			texts[name] = above[files.Position(literal.Pos()).Line]
		}
		return true
	})
	var table strings.Builder
	table.WriteString("| variable | what it is |\n|---|---|\n")
	for _, name := range otherVariables() {
		if texts[name] == "" {
			t.Errorf("%s has no comment in environment.go", name)
		}
		fmt.Fprintf(&table, "| `%s` | %s |\n", name, texts[name])
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if strings.HasPrefix(name, variablePrefix) && name != variablePrefix && !slices.Contains(otherVariables(), name) {
			t.Errorf("the walk found %s, which is no variable", name)
		}
	}
	return table.String()
}
