package deployed_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"radwitness/pkg/deployed"
	"radwitness/pkg/fleet"
)

const file = `
credentials: {corp: {env: CORP}}
groups:
  - name: vpn
    target_groups: [{arn: "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/vpn/0123456789abcdef"}]
    credentials: corp
    servers: [{name: ise-1, address: 10.0.1.10}]
`

func TestFleet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]deployed.Source{
		"named":       {FleetFile: path},
		"environment": {Environ: []string{"A=b", "RADWITNESS_FLEET=" + path}},
	} {
		f, err := s.Fleet(nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := deployed.RegionOf(f); got != "eu-central-1" {
			t.Errorf("%s: region %q", name, got)
		}
		if got := s.FleetOrNone().GroupNames(); len(got) != 1 || got[0] != "vpn" {
			t.Errorf("%s: groups %v", name, got)
		}
	}
	if _, err := (deployed.Source{}).Fleet(nil); err == nil || !strings.Contains(err.Error(), "say where it is with -config FILE") {
		t.Errorf("without a file: %v", err)
	}
	missing := deployed.Source{FleetFile: "nowhere.yaml"}
	if _, err := missing.Fleet(nil); err == nil || strings.Contains(err.Error(), "say where it is") {
		t.Errorf("the file that was named: %v", err)
	}
	if got := missing.FleetOrNone(); len(got.Groups) != 0 {
		t.Errorf("groups of no file: %v", got)
	}
}

func TestStack(t *testing.T) {
	set := deployed.Source{Environ: []string{"RADWITNESS_STACK=blue"}}
	with := &fleet.Fleet{Deploy: &fleet.Deploy{StackName: "green"}}
	for _, c := range []struct {
		source deployed.Source
		fleet  *fleet.Fleet
		want   string
	}{
		{set, with, "blue"}, {deployed.Source{}, with, "green"}, {set, &fleet.Fleet{}, "blue"}, {deployed.Source{}, &fleet.Fleet{}, ""},
	} {
		if got := c.source.Stack(c.fleet); got != c.want {
			t.Errorf("stack %q, want %q", got, c.want)
		}
	}
}
