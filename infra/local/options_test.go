package main

import (
	"errors"
	"flag"
	"testing"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want options
		ok   bool
	}{
		{"nothing", nil, options{}, true},
		{"all that go together", []string{"-demo", "-log", "x.log"}, options{demo: true, log: "x.log"}, true},
		{"own servers", []string{"-config", "fleet.yaml"}, options{config: "fleet.yaml"}, true},
		{"unknown flag", []string{"-x"}, options{}, false},
		{"argument", []string{"fleet.yaml"}, options{}, false},
		{"demo with own servers", []string{"-demo", "-config", "fleet.yaml"}, options{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parse(test.args)
			if (err == nil) != test.ok {
				t.Errorf("error %v, want one: %v", err, !test.ok)
			}
			if test.ok && got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
	if _, err := parse([]string{"-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: error %v, want flag.ErrHelp", err)
	}
}
