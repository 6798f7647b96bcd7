package telemetry_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"radwitness/pkg/docs"
)

var update = flag.Bool("update", false, "write the table of metrics in docs/operate.md anew")

// TestMetricsAreDocumented holds the runbook's table of metrics to the comments
// of their names, each of which is "function, unit: what it is".
func TestMetricsAreDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "metrics.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	table := "| metric | from | unit | what it is |\n|---|---|---|---|\n"
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Metric") {
			return true
		}
		name, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		source, text, _ := strings.Cut(strings.TrimSpace(spec.Comment.Text()), ": ")
		function, unit, ok := strings.Cut(source, ", ")
		if !ok {
			t.Errorf("the comment of %s is not \"function, unit: what it is\"", spec.Names[0].Name)
		}
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, function, unit, text)
		return true
	})
	docs.Section(t, "../../docs/operate.md", "metrics", table, *update)
}
