package main

import (
	"errors"
	"flag"
	"fmt"
)

const usage = `usage: local [-config FILE | -demo] [-log FILE]

Runs prober and reconciler against an AWS in this process, and shows what they do.
Without -config it also starts three RADIUS servers, whose faults you can switch.
Exit code: 0 all went well, 1 something did not, 3 bad usage or configuration.

`

// options are what the command line says.
type options struct {
	config, log string // files
	demo        bool
}

// parse reads the arguments. It has told the user what is wrong with them when
// it fails, and it fails with flag.ErrHelp when they ask for help.
func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("local", flag.ContinueOnError)
	flags.Usage = func() {
		_, _ = fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.config, "config", "", "probe the servers of this fleet `file`; its credentials must be of the kind env")
	flags.StringVar(&o.log, "log", "", "write the functions' logs to this `file` instead of a temporary one")
	flags.BoolVar(&o.demo, "demo", false, "play a scripted outage, check each step, and end")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("%q is no argument of this command", flags.Arg(0))
	case o.demo && o.config != "":
		err = errors.New("-demo has a fleet of its own, so -config cannot be given too")
	}
	if err != nil {
		_, _ = fmt.Fprintln(flags.Output(), err)
		flags.Usage()
	}
	return o, err
}
