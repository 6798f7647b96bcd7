//go:build lambda.norpc

package main

import (
	"fmt"
	"io"
)

// operate has no commands in a build for Lambda, which is to be small.
func operate(_ []string, _, errs io.Writer, _ []string) int {
	_, _ = fmt.Fprintln(errs, "prober: this build is for Lambda; go run ./functions/prober has the commands")
	return 3
}
