package fleet

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds on a file, so that none can exhaust memory or the parser's stack.
const (
	maxFileSize = 1 << 20 // bytes; thousands of servers
	maxNesting  = 32      // the deepest key has 4
)

// decodeYAML decodes a file into its form; false if there is nothing to look at
// any further. It walks the syntax tree itself, because a decoder stops at the
// first error and forgets the lines of keys.
func (r *report) decodeYAML(data []byte, form *fileForm) bool {
	top := r.at("")
	if len(data) > maxFileSize {
		r.fail(top, "is larger than %d bytes", maxFileSize)
		return false
	}
	file, err := parseYAML(string(data))
	var syntax *yaml.SyntaxError
	switch {
	case errors.As(err, &syntax):
		r.fail(place{line: lineOf(syntax.Token)}, "not valid YAML: %s", syntax.Message)
	case err != nil:
		r.fail(top, "not valid YAML: %v", err)
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		r.fail(top, "is empty")
	case len(file.Docs) > 1:
		r.fail(top, "holds more than one YAML document")
	default:
		r.decode(file.Docs[0].Body, "", reflect.ValueOf(form).Elem())
		return !r.bad[top]
	}
	return false
}

// parseYAML parses text into a syntax tree. A panic of the parser is an error
// of the file: it comes from what the file holds.
func parseYAML(text string) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser gave up: %v", p)
		}
	}()
	tokens := lexer.Tokenize(text)
	if nesting(tokens) > maxNesting {
		return nil, fmt.Errorf("nested more than %d levels deep", maxNesting)
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// nesting returns how deep brackets nest, or how many levels one line opens,
// whichever is more. Levels opened by indentation alone are bounded by the
// size of the file.
func nesting(tokens token.Tokens) int {
	deepest, brackets, line, opened := 0, 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, opened = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			brackets++
		case token.MappingEndType, token.SequenceEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			opened++
		}
		deepest = max(deepest, brackets, opened)
	}
	return deepest
}

// textForm is a form that is written as one word or number.
type textForm interface {
	decodeText(text string) error
}

// decode decodes a node into a form, and notes what does not fit.
func (r *report) decode(n ast.Node, key string, into reflect.Value) {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	at := r.at(key)
	switch n := n.(type) {
	case nil, *ast.NullNode:
		r.fail(at, "has no value: give it one or remove the key")
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		r.fail(at, "YAML anchors, aliases and tags are not supported: repeat the value, or put it under defaults")
	case *ast.MappingNode:
		r.decodeMapping(n, key, into)
	case *ast.SequenceNode:
		r.decodeSequence(n, key, into)
	case ast.ScalarNode:
		err := decodeScalar(n, into)
		switch {
		case err != nil && strings.HasPrefix(key, "credentials"):
			r.fail(at, "must be %s", expected(into)) // somebody may have put a secret there
		case err != nil:
			r.fail(at, "%v", err)
		}
	default:
		r.fail(at, "must be %s", expected(into))
	}
}

func (r *report) decodeMapping(n *ast.MappingNode, key string, into reflect.Value) {
	at := r.at(key)
	var known []field
	switch {
	case into.Kind() == reflect.Map:
		into.Set(reflect.MakeMap(into.Type()))
	case into.Kind() == reflect.Struct && into.Type() != reflect.TypeFor[floor]() && into.Type() != reflect.TypeFor[attributeText]():
		known = r.fieldsOf(into.Type())
	default:
		r.fail(at, "must be %s, not a mapping", expected(into))
		return
	}

	seen := map[string]int{}
	for _, entry := range n.Values {
		name := entry.Key.GetToken().Value
		line := lineOf(entry.Key.GetToken())
		path := join(key, name)
		if first, ok := seen[name]; ok {
			r.fail(place{key: path, line: line}, "is given twice, first on line %d", first)
			continue
		}
		seen[name] = line
		r.lines[path] = line
		switch i := slices.IndexFunc(known, func(f field) bool { return f.name == name }); {
		case into.Kind() == reflect.Map:
			value := reflect.New(into.Type().Elem()).Elem()
			r.decode(entry.Value, path, value)
			into.SetMapIndex(reflect.ValueOf(name), value)
		case i >= 0:
			r.decode(entry.Value, path, into.FieldByIndex(known[i].index))
		case entry.Key.IsMergeKey():
			r.fail(r.at(path), "YAML merge keys are not supported: repeat the values, or put them under defaults")
		default:
			names := make([]string, len(known))
			for i, f := range known {
				names[i] = f.name
			}
			r.fail(r.at(path), "unknown key%s; known here: %s", suggest(name, names), strings.Join(names, ", "))
		}
	}
	for _, f := range known {
		if _, ok := seen[f.name]; !ok && f.required {
			r.fail(r.at(join(key, f.name)), "is missing")
		}
	}
}

func (r *report) decodeSequence(n *ast.SequenceNode, key string, into reflect.Value) {
	if into.Kind() != reflect.Slice {
		r.fail(r.at(key), "must be %s, not a list", expected(into))
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(n.Values), len(n.Values)))
	for i, value := range n.Values {
		path := fmt.Sprintf("%s[%d]", key, i)
		r.lines[path] = r.lines[key]
		if value != nil && value.GetToken() != nil {
			r.lines[path] = lineOf(value.GetToken())
		}
		r.decode(value, path, into.Index(i))
	}
}

// decodeScalar decodes a word or number of the file. YAML tells text and numbers
// apart, and a name like 007 must not lose its zeros.
func decodeScalar(n ast.ScalarNode, into reflect.Value) error {
	text := n.GetToken().Value
	isText := false
	switch n := n.(type) {
	case *ast.StringNode:
		text, isText = n.Value, true
	case *ast.LiteralNode:
		text, isText = n.Value.Value, true
	}
	_, fits := into.Addr().Interface().(textForm)
	switch into.Kind() {
	case reflect.String:
		if !isText {
			return fmt.Errorf("must be text: put %s in quotes", text)
		}
		fits = true
	case reflect.Int:
		_, fits = n.(*ast.IntegerNode)
	case reflect.Bool:
		_, fits = n.(*ast.BoolNode)
	}
	if !fits {
		return fmt.Errorf("must be %s, not %s", expected(into), quote(text))
	}
	return decodeText(text, into)
}

// decodeText decodes the text of a scalar of the file or of a variable.
func decodeText(text string, into reflect.Value) error {
	if form, ok := into.Addr().Interface().(textForm); ok {
		return form.decodeText(text)
	}
	switch into.Kind() {
	case reflect.String:
		into.SetString(text)
	case reflect.Bool:
		into.SetBool(strings.EqualFold(text, "true"))
	case reflect.Int:
		v, err := strconv.Atoi(text)
		// Other spellings, 0x10 or 010, do not mean the same to every YAML parser.
		if err != nil || strconv.Itoa(v) != text {
			return fmt.Errorf("must be %s, not %s", expected(into), quote(text))
		}
		into.SetInt(int64(v))
	}
	return nil
}

// expected says what a form must look like.
func expected(into reflect.Value) string {
	switch into.Interface().(type) {
	case duration:
		return "a duration like 10s"
	case floor:
		return "a number of servers or a percentage"
	case attributeForm, attributeText:
		return "text, a number, an address, or a list of them"
	}
	switch into.Kind() {
	case reflect.String:
		return "text"
	case reflect.Int:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "a mapping"
}

// field is a key that a form knows.
type field struct {
	name     string
	index    []int // in the form
	required bool
}

// fields lists the keys of a form in their order, those of an embedded form as
// if they were its own.
func fields(form reflect.Type) []field {
	var list []field
	for _, f := range reflect.VisibleFields(form) {
		if !f.Anonymous {
			list = append(list, field{f.Tag.Get("yaml"), f.Index, strings.Contains(","+f.Tag.Get("jsonschema")+",", ",required,")})
		}
	}
	return list
}

// fieldsOf is fields, found out once for each form.
func (r *report) fieldsOf(form reflect.Type) []field {
	if r.forms[form] == nil {
		r.forms[form] = fields(form)
	}
	return r.forms[form]
}

// plain reports whether a name can be part of a path as it is. It is asked for
// every key at every start of a function, where an expression would be slow.
func plain(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', c == '_', c == '-':
		default:
			return false
		}
	}
	return 1 <= len(name) && len(name) <= 64
}

// join returns the path of a key in a mapping. A name that could be mistaken
// for a path is quoted.
func join(parent, name string) string {
	if !plain(name) {
		return parent + "[" + quote(name) + "]"
	}
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// quote quotes text for a message, and cuts it if it is long.
func quote(text string) string {
	const longest = 80
	if len(text) > longest {
		return strconv.Quote(text[:longest]) + "..."
	}
	return strconv.Quote(text)
}

// suggest returns a hint at the nearest known word, empty if none is near.
func suggest(word string, known []string) string {
	nearest, least := "", 3
	for _, k := range known {
		if d := distance(word, k); d < least && d < len(k) {
			nearest, least = k, d
		}
	}
	if nearest == "" {
		return ""
	}
	return " (did you mean " + nearest + "?)"
}

// distance counts the bytes to insert, delete or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func lineOf(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 1
	}
	return t.Position.Line
}
