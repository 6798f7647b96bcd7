package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Export writes a file for a shell to source, so that commands in another
// terminal work on this lab as on an AWS account, and beside it, in a directory
// with .d at the end of its name, the fleet file. No secret is in them: those of
// the lab are in its Secrets Manager, and the user's are in the user's
// environment. remove takes both away, unless another lab has written its own.
func (l *Lab) Export(path string) (remove func() error, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("writing the lab's environment: %w", err)
	}
	dir := path + ".d"
	if err := l.exportFleet(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the lab's fleet file: %w", err), os.RemoveAll(dir))
	}
	text, err := l.environment(filepath.Join(dir, "fleet.yaml"))
	if err == nil {
		err = writeFile(path, text)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("writing the lab's environment: %w", err), os.RemoveAll(dir))
	}
	return func() error {
		if there, err := os.ReadFile(path); err != nil || !bytes.Equal(there, text) {
			return nil
		}
		return errors.Join(os.Remove(path), os.RemoveAll(dir))
	}, nil
}

// exportFleet writes the fleet file, and the files that it names, into a
// directory of its own.
func (l *Lab) exportFleet(dir string) error {
	if err := os.RemoveAll(dir); err != nil { // of a run that was killed
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	for _, name := range l.Fleet.Files {
		text, err := os.ReadFile(filepath.Join(l.fleetDir, name))
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, "fleet.yaml"), l.fleetText)
}

// environment is the text for a shell to source.
func (l *Lab) environment(fleetPath string) ([]byte, error) {
	access, err := l.Operator.Credentials.Retrieve(context.Background())
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	text.WriteString("# Leads AWS tools and the commands of radwitness to the system that `make run` runs.\nunset AWS_PROFILE AWS_SESSION_TOKEN\n")
	for _, assignment := range append([]string{
		"AWS_ENDPOINT_URL=" + *l.Operator.BaseEndpoint,
		"AWS_REGION=" + l.Operator.Region,
		"AWS_DEFAULT_REGION=" + l.Operator.Region, // AWS CLI version 1 knows no other
		"AWS_ACCESS_KEY_ID=" + access.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY=" + access.SecretAccessKey,
		"RADWITNESS_FLEET=" + fleetPath,
		"RADWITNESS_PROBES_TABLE=" + l.cloud.probes,
		"RADWITNESS_HEALTH_TABLE=" + l.cloud.health,
		"RADWITNESS_STACK=" + l.cloud.stack,
	}, l.overrides...) {
		name, value, _ := strings.Cut(assignment, "=")
		fmt.Fprintf(&text, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	return text.Bytes(), nil
}

// writeFile writes a file for its owner alone, and makes the directory for it.
func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// A file that is there keeps its mode when it is written to.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
