// Package commandline is what the commands have in common: how they refuse a
// command line, and what a shell is told to complete it.
package commandline

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
)

// UsageError says where to read about a command's flags. It is for
// cli.Command.OnUsageError.
func UsageError(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	return fmt.Errorf("%w; %s -h shows what it takes", err, cmd.FullName())
}

// NoArguments refuses arguments that a command does not take.
func NoArguments(cmd *cli.Command) error {
	if cmd.Args().Present() {
		return fmt.Errorf("%q is no argument of %s; %[2]s -h shows what it takes", cmd.Args().First(), cmd.FullName())
	}
	return nil
}

// Suggest writes what may follow on a command line that ends in last: what words
// returns for it, which is asked without its dashes if it is a flag; where that is
// nil, flags with as many dashes as were typed, or commands.
func Suggest(w io.Writer, cmd *cli.Command, last string, words func(after string) []string) {
	name := strings.TrimLeft(last, "-")
	if list := words(name); list != nil {
		for _, word := range list {
			_, _ = fmt.Fprintln(w, word)
		}
		return
	}
	if !strings.HasPrefix(last, "-") {
		for _, sub := range cmd.VisibleCommands() {
			_, _ = fmt.Fprintf(w, "%s:%s\n", sub.Name, sub.Usage)
		}
		return
	}
	dashes := last[:min(2, len(last)-len(name))]
	for _, f := range append(slices.Clone(cmd.Flags), cmd.VisiblePersistentFlags()...) {
		usage := ""
		if doc, ok := f.(cli.DocGenerationFlag); ok {
			usage = strings.ReplaceAll(doc.GetUsage(), "`", "")
		}
		_, _ = fmt.Fprintf(w, "%s%s:%s\n", dashes, f.Names()[0], usage)
	}
}

// Last is the last word of a command line that asks for suggestions by its last
// argument; empty if there is none.
func Last(args []string) string {
	if len(args) < 2 {
		return ""
	}
	return args[len(args)-2]
}
