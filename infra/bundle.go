package main

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"

	"radwitness/pkg/fleet"
)

// bundles are the directories that become the functions' code.
type bundles struct {
	prober, reconciler string
}

// stageBundle puts a function's bootstrap and the fleet file side by side into
// a directory of their own, and returns it. Only names, contents and the modes
// set here go into it, so the same inputs give the same asset.
func stageBundle(dist, function, fleetFile string, files []string, arch fleet.Architecture) (string, error) {
	bootstrap := filepath.Join(dist, function, "bootstrap")
	if err := checkBootstrap(bootstrap, arch); err != nil {
		return "", err
	}
	dir := filepath.Join(dist, "bundle", function)
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("clearing bundle of %s: %w", function, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("staging bundle of %s: %w", function, err)
	}
	type content struct {
		from, to string
		mode     os.FileMode
	}
	contents := []content{{bootstrap, "bootstrap", 0o755}, {fleetFile, "fleet.yaml", 0o644}}
	for _, name := range files {
		contents = append(contents, content{filepath.Join(filepath.Dir(fleetFile), name), name, 0o644})
	}
	for _, file := range contents {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file.to)), 0o755); err != nil {
			return "", fmt.Errorf("staging bundle of %s: %w", function, err)
		}
		if err := copyFile(file.from, filepath.Join(dir, file.to), file.mode); err != nil {
			return "", fmt.Errorf("staging bundle of %s: %w", function, err)
		}
	}
	return dir, nil
}

func copyFile(from, to string, mode os.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, mode); err != nil {
		return err
	}
	return os.Chmod(to, mode) // whatever the umask took away
}

// machines are the ELF machines of Lambda's architectures, and what make build
// calls them.
var machines = map[fleet.Architecture]struct {
	machine elf.Machine
	arch    string
}{
	fleet.ARM64: {elf.EM_AARCH64, "arm64"},
	fleet.X8664: {elf.EM_X86_64, "amd64"},
}

// checkBootstrap checks that a bootstrap is a program for the architecture:
// another one would deploy, and die at its first start.
func checkBootstrap(path string, arch fleet.Architecture) error {
	want := machines[arch]
	remedy := "run make build ARCH=" + want.arch
	file, err := elf.Open(path)
	switch {
	case os.IsNotExist(err):
		return fmt.Errorf("checking %s: there is no such file: %s", path, remedy)
	case err != nil:
		return fmt.Errorf("checking %s: not a Linux program: %w: %s", path, err, remedy)
	}
	defer func() { _ = file.Close() }()
	if file.Machine != want.machine {
		return fmt.Errorf("checking %s: built for %s, but deploy.architecture is %s: %s", path, file.Machine, arch, remedy)
	}
	return nil
}
