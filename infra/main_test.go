package main

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

const sample = "../testdata/fleet.yaml"

func newApp(t *testing.T) awscdk.App {
	t.Helper()
	return awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()), AnalyticsReporting: jsii.Bool(false)})
}

func TestSynthesizeSample(t *testing.T) {
	dist, _ := newDist(t, program(elf.EM_AARCH64))
	app := newApp(t)
	if err := synthesize(app, sample, dist); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		filepath.Join(*app.Outdir(), "radwitness.template.json"),
		filepath.Join(dist, "bundle", "prober", "radius-ca.pem"), // the fleet file names it
		filepath.Join(dist, "bundle", "reconciler", "radius-ca.pem"),
	} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// What is wrong must stop synthesis, and say where.
func TestSynthesizeRefuses(t *testing.T) {
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		old, new string
		want     string // after the file's name
	}{
		"a broken file": {"address: 10.0.1.10", "address: ise-1", `: groups[0].servers[0].address: "ise-1" is not an IP address`},
		"no section":    {"\ndeploy:\n", "\nx-deploy:\n", ": x-deploy: unknown key"},
		"an override":   {"attempts: 3", "attempts: 0", ": defaults.probe.attempts: must be 1 to 10, not 0"},
	} {
		t.Run(name, func(t *testing.T) {
			dist, path := newDist(t, program(elf.EM_AARCH64))
			if err := os.WriteFile(path, []byte(strings.Replace(string(text), test.old, test.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("RADWITNESS_PROBE_ATTEMPTS", "3") // what is in force here is not in the function
			err := synthesize(newApp(t), path, dist)
			if err == nil || !strings.HasPrefix(err.Error(), path+":") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one at %s with %q", err, path, test.want)
			}
		})
	}
}

func TestSynthesizeWithoutDeploy(t *testing.T) {
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	dist, path := newDist(t, program(elf.EM_AARCH64))
	fleet, _, _ := strings.Cut(string(text), "\ndeploy:\n")
	if err := copyFile("../testdata/radius-ca.pem", filepath.Join(filepath.Dir(path), "radius-ca.pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(fleet), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := synthesize(newApp(t), path, dist); err == nil || !strings.HasPrefix(err.Error(), path+": deploy: is missing") {
		t.Errorf("error %v, want one that misses the section deploy", err)
	}
	if err := synthesize(newApp(t), filepath.Join(dist, "none.yaml"), dist); err == nil || !strings.Contains(err.Error(), "none.yaml: no such file") {
		t.Errorf("error %v, want one that misses the file", err)
	}
}
