package lab

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"radwitness/pkg/bootstrap"
	"radwitness/pkg/fleet"
	"radwitness/pkg/store"
)

// source returns the variables that a shell has after sourcing a file.
func source(t *testing.T, path string) []string {
	t.Helper()
	shell := exec.Command("sh", "-c", `. "$1"; env`, "sh", path)
	shell.Env = []string{"PATH=" + os.Getenv("PATH"), "AWS_PROFILE=production", "AWS_SESSION_TOKEN=old"}
	out, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// A shell that sources the file has the same fleet, and finds the same tables.
func TestExport(t *testing.T) {
	overridden := append(brisk(), "RADWITNESS_LOG_LEVEL=info")
	l := start(t, Config{Environ: overridden})
	path := filepath.Join(t.TempDir(), "dist", "local.env")
	remove, err := l.Export(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, filepath.Join(path+".d", "fleet.yaml")} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", p, info, err)
		}
	}
	environ := source(t, path)
	get := lookup(environ)
	for _, assignment := range environ {
		name, value, _ := strings.Cut(assignment, "=")
		if slices.Contains([]string{"AWS_PROFILE", "AWS_SESSION_TOKEN"}, name) {
			t.Errorf("the shell still has %s", name)
		}
		t.Setenv(name, value)
	}
	fleetPath, _ := get("RADWITNESS_FLEET")
	f, err := fleet.Load(fleetPath, environ)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f, l.Fleet) {
		t.Errorf("the fleet is %+v, the lab's %+v", f, l.Fleet)
	}
	cfg, err := bootstrap.AWS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	table, _ := get("RADWITNESS_PROBES_TABLE")
	probes := store.Probes{DynamoDB: dynamodb.NewFromConfig(cfg), Table: table}
	if _, err := probes.Group(t.Context(), f.Groups[0].Name); err != nil {
		t.Error(err)
	}

	another := start(t, Config{Environ: overridden})
	removeOther, err := another.Export(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("what another lab has written is gone: %v", err)
	}
	if err := removeOther(); err != nil {
		t.Error(err)
	}
	for _, p := range []string{path, path + ".d"} {
		if _, err := os.Stat(p); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", p, err)
		}
	}
}

// What a user's fleet names comes along, and nothing of the user's environment
// but what overrides the fleet.
func TestExportOfAFleetOfTheUsersOwn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "fleet.yaml")
	ca, err := os.ReadFile("../../../testdata/radius-ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"ca.pem": ca, "fleet.yaml": []byte(`
credentials: {lab: {env: LAB}}
groups:
  - name: vpn
    credentials: lab
    target_groups:
      - arn: arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/auth/0123456789abcdef
      - arn: arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/auth/0123456789abcdef0
    probe: {method: peap-mschapv2, ca_file: ca.pem}
    servers: [{name: one, address: 127.0.0.1}]
`)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environ := []string{"RADWITNESS_PROBE_INTERVAL=20s", "LAB_SHARED_SECRET=it's", "LAB_USERNAME=u", "LAB_PASSWORD=pw"}
	file, err := LoadFleet(path, environ)
	if err != nil {
		t.Fatal(err)
	}
	l := start(t, Config{Fleet: file, Environ: environ})
	out := filepath.Join(t.TempDir(), "x.env")
	if _, err := l.Export(out); err != nil {
		t.Fatal(err)
	}
	f, err := fleet.Load(filepath.Join(out+".d", "fleet.yaml"), source(t, out))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(f, l.Fleet) {
		t.Errorf("the fleet is %+v, the lab's %+v", f, l.Fleet)
	}
	for _, tg := range f.Groups[0].TargetGroups {
		if !strings.HasPrefix(tg.ARN, "arn:aws:elasticloadbalancing:us-east-1:000000000000:") {
			t.Errorf("target group %s is not the lab's", tg.ARN)
		}
	}
	err = fs.WalkDir(os.DirFS(filepath.Dir(out)), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(out), name))
		if strings.Contains(string(text), "LAB_") && name == "x.env" || strings.Contains(string(text), "it's") {
			t.Errorf("%s has a secret of the user's:\n%s", name, text)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
