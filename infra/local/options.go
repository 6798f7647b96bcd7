package main

import (
	"errors"
	"flag"
	"fmt"
	"time"
)

const usage = `usage: local [-config FILE | -demo | -chaos DURATION [-seed N]] [-log FILE] [-env FILE] [-serve ADDRESS]

Runs prober and reconciler against an AWS in this process, and shows what they do.
Without -config it also starts three RADIUS servers, whose faults you can switch.
Exit code: 0 all went well, 1 something did not, 3 bad usage or configuration.

`

// options are what the command line says.
type options struct {
	config, log, environment string // files
	serve                    string // address of the status page; empty has none
	demo                     bool
	chaos                    time.Duration // of faults; 0 has none
	seed                     uint64        // of the faults
}

// noPage is what -serve takes for no status page.
const noPage = "off"

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
	flags.StringVar(&o.environment, "env", "dist/local.env", "while the system runs, keep this `file` for other terminals to source")
	flags.DurationVar(&o.chaos, "chaos", 0, "break AWS, functions and servers for a `time`, check that all comes to rest, and end")
	flags.Uint64Var(&o.seed, "seed", 1, "`seed` of the faults")
	flags.StringVar(&o.serve, "serve", "127.0.0.1:8080", "serve the status page on this `address`, or the next port that is free; "+
		noPage+" has none, as -demo and -chaos unless it is given")
	flags.BoolVar(&o.demo, "demo", false, "play a scripted outage, check each step, and end")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	asked := false
	flags.Visit(func(f *flag.Flag) { asked = asked || f.Name == "serve" })
	if o.serve == noPage || !asked && (o.demo || o.chaos > 0) {
		o.serve = ""
	}
	var err error
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("%q is no argument of this command", flags.Arg(0))
	case (o.demo || o.chaos > 0) && o.config != "":
		err = errors.New("-demo and -chaos have a fleet of their own, so -config cannot be given too")
	case o.demo && o.chaos > 0:
		err = errors.New("-demo and -chaos cannot both be given")
	}
	if err != nil {
		_, _ = fmt.Fprintln(flags.Output(), err)
		flags.Usage()
	}
	return o, err
}
