package docs_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	commandLine = regexp.MustCompile(`^(?:\$ )?(?:go run \./functions/(prober|reconciler)|(?:dist/bin/)?(radwitness|radwitness-prober))\s+([^|>#]+)`)
	flagName    = regexp.MustCompile(`(?:^|\s)--?([a-z][a-z-]*)`)
	quotedText  = regexp.MustCompile(`"[^"]*"`)
)

// The commands that the documentation shows, and their flags, must be there.
func TestCommands(t *testing.T) {
	programs := map[string]string{"reconciler": build(t, "reconciler"), "prober": build(t, "prober")}
	programs["radwitness"], programs["radwitness-prober"] = programs["reconciler"], programs["prober"]
	help := map[string]string{}
	lines := 0
	for _, p := range pages(t) {
		for _, code := range p.code {
			match := commandLine.FindStringSubmatch(code)
			if match == nil {
				continue
			}
			lines++
			program, args := match[1]+match[2], quotedText.ReplaceAllString(match[3], "TEXT")
			command, _, _ := strings.Cut(args, " ")
			if strings.HasPrefix(command, "-") {
				command = ""
			}
			asked := program + " " + command
			if help[asked] == "" {
				out, err := exec.Command(programs[program], append(strings.Fields(command), "-h")...).CombinedOutput()
				if err != nil {
					t.Errorf("%s shows %q: %v, %s", p.path, code, err, out)
				}
				help[asked] = string(out) + "\n"
			}
			for _, flag := range flagName.FindAllStringSubmatch(args, -1) {
				if !regexp.MustCompile(`\W--?` + flag[1] + `\b`).MatchString(help[asked]) {
					t.Errorf("%s shows %q, and %s has no flag -%s", p.path, code, asked, flag[1])
				}
			}
		}
	}
	if lines < 10 {
		t.Errorf("only %d command lines were found", lines)
	}
}

// build makes a function's program and returns its path.
func build(t *testing.T, function string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), function)
	if out, err := exec.Command("go", "build", "-o", path, top+"/functions/"+function).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v, %s", function, err, out)
	}
	return path
}
