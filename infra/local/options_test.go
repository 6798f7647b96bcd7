package main

import (
	"errors"
	"flag"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want options
		ok   bool
	}{
		{"nothing", nil, options{serve: "127.0.0.1:8080", seed: 1}, true},
		{"all that go together", []string{"-demo", "-log", "x.log"}, options{demo: true, log: "x.log", seed: 1}, true},
		{"own servers", []string{"-config", "fleet.yaml"}, options{config: "fleet.yaml", serve: "127.0.0.1:8080", seed: 1}, true},
		{"environment elsewhere", []string{"-env", "x.env"}, options{environment: "x.env", serve: "127.0.0.1:8080", seed: 1}, true},
		{"page elsewhere", []string{"-serve", "127.0.0.1:0"}, options{serve: "127.0.0.1:0", seed: 1}, true},
		{"no page", []string{"-serve", "off"}, options{seed: 1}, true},
		{"demo with a page", []string{"-demo", "-serve", "127.0.0.1:8080"}, options{demo: true, serve: "127.0.0.1:8080", seed: 1}, true},
		{"chaos", []string{"-chaos", "5m", "-seed", "7"}, options{chaos: 5 * time.Minute, seed: 7}, true},
		{"chaos with own servers", []string{"-chaos", "5m", "-config", "fleet.yaml"}, options{}, false},
		{"chaos and demo", []string{"-chaos", "5m", "-demo"}, options{}, false},
		{"unknown flag", []string{"-x"}, options{}, false},
		{"argument", []string{"fleet.yaml"}, options{}, false},
		{"demo with own servers", []string{"-demo", "-config", "fleet.yaml"}, options{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.want.environment == "" {
				test.want.environment = "dist/local.env"
			}
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
