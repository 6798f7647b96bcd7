package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3assets"
	"github.com/aws/jsii-runtime-go"

	"radwitness/pkg/fleet"
)

// program is an ELF file with nothing in it.
func program(machine elf.Machine) []byte {
	header := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, header); err != nil {
		panic(err) // a buffer takes all
	}
	return b.Bytes()
}

// newDist makes a directory as make build leaves it.
func newDist(t *testing.T, bootstrap []byte) (dist, fleetFile string) {
	t.Helper()
	dist = t.TempDir()
	for _, function := range []string{"prober", "reconciler"} {
		if err := os.MkdirAll(filepath.Join(dist, function), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dist, function, "bootstrap"), bootstrap, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fleetFile = filepath.Join(dist, "my-fleet.yaml")
	if err := os.WriteFile(fleetFile, []byte("groups: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dist, fleetFile
}

func TestStageBundle(t *testing.T) {
	dist, fleetFile := newDist(t, program(elf.EM_AARCH64))
	hash := func() string {
		dir, err := stageBundle(dist, "prober", fleetFile, nil, fleet.ARM64)
		if err != nil {
			t.Fatal(err)
		}
		for name, mode := range map[string]os.FileMode{"bootstrap": 0o755, "fleet.yaml": 0o644} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != mode {
				t.Errorf("mode of %s is %v, want %v", name, info.Mode(), mode)
			}
		}
		stack := awscdk.NewStack(awscdk.NewApp(nil), nil, nil)
		return *awss3assets.NewAsset(stack, jsii.String("Asset"), &awss3assets.AssetProps{Path: &dir}).AssetHash()
	}
	first := hash()
	if second := hash(); second != first {
		t.Errorf("the same files give asset %s, then %s", first, second)
	}
	if err := os.WriteFile(fleetFile, []byte("groups: [] # changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if hash() == first {
		t.Error("another fleet file gives the same asset")
	}
}

func TestStageBundleRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		bootstrap []byte
		arch      fleet.Architecture
		want      string
	}{
		"another architecture": {program(elf.EM_X86_64), fleet.ARM64, "built for EM_X86_64, but deploy.architecture is arm64: run make build ARCH=arm64"},
		"the other way round":  {program(elf.EM_AARCH64), fleet.X8664, "built for EM_AARCH64, but deploy.architecture is x86_64: run make build ARCH=amd64"},
		"no program":           {[]byte("#!/bin/sh\n"), fleet.ARM64, "not a Linux program"},
	} {
		t.Run(name, func(t *testing.T) {
			dist, fleetFile := newDist(t, test.bootstrap)
			_, err := stageBundle(dist, "reconciler", fleetFile, nil, test.arch)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
	if _, err := stageBundle(t.TempDir(), "prober", "fleet.yaml", nil, fleet.ARM64); err == nil || !strings.Contains(err.Error(), "there is no such file: run make build ARCH=arm64") {
		t.Errorf("error %v, want one that says to build first", err)
	}
}
