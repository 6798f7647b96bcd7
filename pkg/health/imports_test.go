package health_test

import (
	"go/build"
	"slices"
	"testing"
)

// The domain core is pure: it may not reach I/O, a clock or an SDK even by way
// of another package.
func TestImportsNothingImpure(t *testing.T) {
	pkg, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"slices", "strings", "time"}
	for _, path := range pkg.Imports {
		if !slices.Contains(allowed, path) {
			t.Errorf("package health imports %s; allowed are %v", path, allowed)
		}
	}
}
