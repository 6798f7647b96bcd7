package commandline_test

import (
	"context"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"radwitness/pkg/commandline"
)

// run runs a small command and returns what it prints, and its error.
func run(args ...string) (string, error) {
	var out strings.Builder
	root := &cli.Command{
		Name: "probe", Writer: &out, EnableShellCompletion: true, HideHelpCommand: true, OnUsageError: commandline.UsageError,
		Flags:    []cli.Flag{&cli.StringFlag{Name: "group", Usage: "a `GROUP`"}},
		Commands: []*cli.Command{{Name: "fleet", Usage: "all of it"}},
		Action:   func(_ context.Context, cmd *cli.Command) error { return commandline.NoArguments(cmd) },
		ShellComplete: func(_ context.Context, cmd *cli.Command) {
			commandline.Suggest(&out, cmd, commandline.Last(args), func(after string) []string {
				return map[string][]string{"group": {"vpn", "lan"}, "none": {}}[after]
			})
		},
	}
	err := root.Run(context.Background(), append([]string{"probe"}, args...))
	return out.String(), err
}

func TestSuggest(t *testing.T) {
	const ask = "--generate-shell-completion"
	for want, args := range map[string][]string{
		"fleet:all of it\n":                   {ask},
		"vpn\nlan\n":                          {"-group", ask},
		"":                                    {"none", ask},
		"-group:a GROUP\n-help:show help\n":   {"-gr", ask},
		"--group:a GROUP\n--help:show help\n": {"--gr", ask},
	} {
		if got, err := run(args...); err != nil || got != want {
			t.Errorf("%v: %q, %v; want %q", args, got, err, want)
		}
	}
	if got := commandline.Last(nil); got != "" {
		t.Errorf("the last of nothing is %q", got)
	}
}

func TestErrors(t *testing.T) {
	for want, args := range map[string][]string{
		`"extra" is no argument of probe; probe -h shows what it takes`:        {"extra"},
		"flag provided but not defined: -colour; probe -h shows what it takes": {"-colour"},
		"flag needs an argument: -group; probe -h shows what it takes":         {"-group"},
	} {
		if out, err := run(args...); err == nil || err.Error() != want || out != "" {
			t.Errorf("%v: %q, %v; want %s", args, out, err, want)
		}
	}
	if _, err := run("-group", "vpn"); err != nil {
		t.Error(err)
	}
}
