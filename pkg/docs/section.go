// Package docs keeps the documentation true, for tests: links and names in it
// must lead somewhere, and a part of a page that code can tell stands between two
// markers and is compared with what the code says.
package docs

import (
	"os"
	"strings"
	"testing"
)

// Section compares the part of a page between the markers "<!-- NAME -->" and
// "<!-- end NAME -->" with the text that belongs there, or writes it there.
func Section(t testing.TB, page, name, text string, write bool) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- end "+name+" -->\n"
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(content), begin)
	old, after, ends := strings.Cut(rest, end)
	switch {
	case !begins || !ends:
		t.Errorf("%s has no section %s%s", page, begin, end)
	case old != text && write:
		if err := os.WriteFile(page, []byte(before+begin+text+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	case old != text:
		t.Errorf("section %q of %s is not up to date: run this test with -update. It should be\n%s", name, page, text)
	}
}
