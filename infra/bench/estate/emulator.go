package estate

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/sivchari/kumo"
)

// EmulatorArgument is the one argument with which a program has to call Emulate
// instead of doing its work.
const EmulatorArgument = "emulator"

// Emulate serves AWS until standard input ends. It is a process of its own, so
// that its processor time is not taken for that of what is measured.
func Emulate() {
	server := kumo.NewServer()
	defer server.Close()
	fmt.Println(server.URL)
	_, _ = io.Copy(io.Discard, os.Stdin) // the parent closes it, at the latest by its end
}

// emulator is such a process.
type emulator struct {
	url     string
	stdin   io.Closer
	process *exec.Cmd
}

func startEmulator() (*emulator, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting the emulator: %w", err)
	}
	cmd := exec.Command(program, EmulatorArgument)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the emulator: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the emulator: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the emulator: %w", err)
	}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = stdin.Close()
		return nil, fmt.Errorf("starting the emulator: it told no address: %w", err)
	}
	return &emulator{url: strings.TrimSpace(url), stdin: stdin, process: cmd}, nil
}

func (e *emulator) close() {
	_ = e.stdin.Close()
	_ = e.process.Wait()
}
