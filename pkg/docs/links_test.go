package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
)

// The top of the repository, and the page that leads to all others.
const (
	top    = "../.."
	readme = "README.md"
)

// page is a page of the documentation: its prose, and the code in it.
type page struct {
	path   string   // from the top of the repository
	prose  string   // without code blocks
	code   []string // lines of code blocks, and code spans
	blocks []block
}

type block struct{ language, text string }

var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// pages reads README.md and docs/*.md.
func pages(t *testing.T) []page {
	t.Helper()
	paths, err := filepath.Glob(top + "/docs/*.md")
	if err != nil || len(paths) < 5 {
		t.Fatalf("pages %v: %v", paths, err)
	}
	var list []page
	for _, path := range append(paths, top+"/"+readme) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, parsePage(strings.TrimPrefix(path, top+"/"), string(content)))
	}
	return list
}

// parsePage tells prose from code: blocks in fences, and blocks that are
// indented after an empty line.
func parsePage(path, content string) page {
	p := page{path: path}
	var fence *block
	empty, indented := true, false
	for line := range strings.Lines(content) {
		text := strings.TrimRight(line, "\n")
		language, isFence := strings.CutPrefix(strings.TrimSpace(text), "```")
		switch {
		case isFence && fence == nil:
			fence = &block{language: language}
			continue
		case isFence:
			p.blocks, fence = append(p.blocks, *fence), nil
			continue
		case fence != nil:
			fence.text += line
			p.code = append(p.code, text)
			continue
		}
		indented = strings.HasPrefix(text, "    ") && (empty || indented)
		empty = strings.TrimSpace(text) == ""
		if indented {
			p.code = append(p.code, strings.TrimSpace(text))
			continue
		}
		p.prose += line
		for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
			p.code = append(p.code, span[1])
		}
	}
	return p
}

// anchors are the fragments of a page's headings, as GitHub makes them.
func (p page) anchors() []string {
	var list []string
	times := map[string]int{}
	for line := range strings.Lines(p.prose) {
		level, heading, ok := strings.Cut(line, " ")
		if !ok || strings.Trim(level, "#") != "" {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(heading))
		times[anchor]++
		if n := times[anchor]; n > 1 {
			anchor = fmt.Sprintf("%s-%d", anchor, n-1)
		}
		list = append(list, anchor)
	}
	return list
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinks(t *testing.T) {
	all := pages(t)
	anchors := map[string][]string{}
	linked := map[string]bool{}
	for _, p := range all {
		anchors[p.path] = p.anchors()
	}
	for _, p := range all {
		for _, match := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(p.prose, ""), -1) {
			target := match[1]
			if strings.Contains(target, "://") {
				continue
			}
			file, anchor, hasAnchor := strings.Cut(target, "#")
			path := p.path
			if file != "" {
				path = filepath.Join(filepath.Dir(p.path), file)
			}
			if _, err := os.Stat(filepath.Join(top, path)); err != nil {
				t.Errorf("%s links to %s, which is not there", p.path, target)
			}
			if known, isPage := anchors[path]; hasAnchor && (!isPage || !slices.Contains(known, anchor)) {
				t.Errorf("%s links to %s, and there is no such heading", p.path, target)
			}
			if p.path == readme {
				linked[path] = true
			}
		}
	}
	for _, p := range all {
		if p.path != readme && !linked[p.path] {
			t.Errorf("%s does not link to %s", readme, p.path)
		}
	}
}

var (
	makeTarget = regexp.MustCompile(`\bmake ([a-z][a-z0-9-]*)`)
	sourcePath = regexp.MustCompile(`(?:^|[\s(])(?:\./)?((?:functions|infra|pkg|testdata|docs)/[A-Za-z0-9_./-]*)`)
)

// What the documentation names must be there: targets of make, packages, files.
func TestNamesInCode(t *testing.T) {
	makefile, err := os.ReadFile(top + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		for _, code := range p.code {
			for _, match := range makeTarget.FindAllStringSubmatch(code, -1) {
				if !strings.Contains(string(makefile), "\n"+match[1]+":") {
					t.Errorf("%s names make %s, which is no target", p.path, match[1])
				}
			}
			for _, match := range sourcePath.FindAllStringSubmatch(code, -1) {
				path := strings.TrimRight(strings.TrimSuffix(match[1], "..."), "./")
				if _, err := os.Stat(filepath.Join(top, path)); err != nil {
					t.Errorf("%s names %s, which is not there", p.path, match[1])
				}
			}
		}
	}
}

// A file that the documentation shows whole must load.
func TestFleetFilesInDocs(t *testing.T) {
	files := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.language != "yaml" || !strings.Contains(b.text, "\ngroups:") {
				continue
			}
			files++
			if _, err := fleet.Parse(p.path, []byte(b.text), nil); err != nil {
				t.Errorf("a fleet file in %s: %v", p.path, err)
			}
		}
	}
	if files == 0 {
		t.Error("no fleet file was found")
	}
}

var firstCell = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// The tables of outcomes and of their reasons name what there is.
func TestOutcomesInDocs(t *testing.T) {
	content, err := os.ReadFile(top + "/docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range health.Outcomes() {
		if !strings.Contains(string(content), "\n| `"+string(o)+"` |") {
			t.Errorf("troubleshooting.md does not say what %s points at", o)
		}
	}
	_, table, _ := strings.Cut(string(content), "\n| reason contains |")
	table, _, _ = strings.Cut(table, "\n\n")
	reasons := firstCell.FindAllStringSubmatch(table, -1)
	source := goSource(t)
	for _, match := range reasons {
		if !strings.Contains(source, match[1]) {
			t.Errorf("troubleshooting.md explains the reason %q, which nothing gives", match[1])
		}
	}
	if len(reasons) < 5 {
		t.Errorf("only %d reasons were found", len(reasons))
	}
}

var (
	quotedMessage = regexp.MustCompile(`msg (?:=|in) ("[^"]*"|\[[^\]]*\])`)
	quoted        = regexp.MustCompile(`["']([^"']+)["']`)
	logField      = regexp.MustCompile(`[a-z_]+`)
)

// The queries for CloudWatch Logs Insights must fit the lines that are logged.
func TestLogQueries(t *testing.T) {
	source := goSource(t)
	queries := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			fields, ok := strings.CutPrefix(b.text, "fields @timestamp, ")
			if !ok {
				continue
			}
			queries++
			for _, match := range quotedMessage.FindAllStringSubmatch(b.text, -1) {
				for _, msg := range quoted.FindAllStringSubmatch(match[1], -1) {
					if !strings.Contains(source, `"`+msg[1]+`"`) {
						t.Errorf("a query in %s looks for %q, which nothing logs", p.path, msg[1])
					}
				}
			}
			fields, _, _ = strings.Cut(fields, "\n")
			for _, name := range logField.FindAllString(fields, -1) {
				if name != "msg" && !strings.Contains(source, `"`+name+`"`) {
					t.Errorf("a query in %s shows %q, which nothing logs", p.path, name)
				}
			}
		}
	}
	if queries < 5 {
		t.Errorf("only %d queries were found", queries)
	}
}

// goSource is all of the functions' code.
func goSource(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, folder := range []string{"functions", "pkg"} {
		err := filepath.WalkDir(filepath.Join(top, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			b.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}
