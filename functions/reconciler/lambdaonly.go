//go:build lambda.norpc

package main

import (
	"fmt"
	"io"
	"os"
)

// operate has no commands in a build for Lambda, which is to be small.
func operate(_ []string, _ *os.File, _, errs io.Writer, _ []string) int {
	_, _ = fmt.Fprintln(errs, "reconciler: this build is for Lambda; go run ./functions/reconciler has the commands")
	return 3
}
