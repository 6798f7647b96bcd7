package bootstrap_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"radwitness/pkg/bootstrap"
)

const fleetFile = `
credentials: {lab: {env: LAB}}
groups:
  - name: vpn
    target_groups: [{arn: "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/vpn/0123456789abcdef"}]
    credentials: lab
    servers: [{name: ise-1, address: 10.0.1.10}]
`

func TestNew(t *testing.T) {
	root := t.TempDir()
	elsewhere := filepath.Join(t.TempDir(), "other.yaml")
	for path, text := range map[string]string{
		filepath.Join(root, "fleet.yaml"): fleetFile,
		elsewhere:                         strings.Replace(fleetFile, "ise-1", "nps-1", 1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name        string
		environ     []string
		server, err string
	}{
		{name: "beside the bootstrap", environ: []string{"LAMBDA_TASK_ROOT=" + root}, server: "ise-1"},
		{name: "named", environ: []string{"LAMBDA_TASK_ROOT=" + root, "RADWITNESS_FLEET=" + elsewhere}, server: "nps-1"},
		{name: "no file", environ: []string{"RADWITNESS_FLEET=" + elsewhere + "x"}, err: "reading the fleet file"},
		{name: "bad level", environ: []string{"LAMBDA_TASK_ROOT=" + root, "RADWITNESS_LOG_LEVEL=loud"}, err: "reading RADWITNESS_LOG_LEVEL"},
		{name: "bad override", environ: []string{"LAMBDA_TASK_ROOT=" + root, "RADWITNESS_MODE=maybe"}, err: "RADWITNESS_MODE:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := bootstrap.New(t.Context(), c.environ, &bytes.Buffer{})
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q in it", err, c.err)
				}
			case err != nil:
				t.Error(err)
			case f.Fleet.Groups[0].Servers[0].Name != c.server:
				t.Errorf("server %s, want %s", f.Fleet.Groups[0].Servers[0].Name, c.server)
			}
		})
	}
}

func TestTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, []byte(fleetFile), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := bootstrap.New(t.Context(), []string{"RADWITNESS_FLEET=" + path, "RADWITNESS_PROBES_TABLE=probes"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if name, err := f.Table("RADWITNESS_PROBES_TABLE"); err != nil || name != "probes" {
		t.Errorf("table %q, %v", name, err)
	}
	if _, err := f.Table("RADWITNESS_HEALTH_TABLE"); err == nil || !strings.Contains(err.Error(), "RADWITNESS_HEALTH_TABLE is not set") {
		t.Errorf("error %v", err)
	}
}
