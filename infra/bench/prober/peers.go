package main

import (
	"context"
	_ "embed" // the files below
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"radwitness/infra/bench/machine"
)

const (
	// parallel is the number of probes under way at once, which is what a socket has
	// identifiers for. pyrad makes one at a time.
	parallel = 256
	// tries is how often a run may lose packets, which it does on a busy machine:
	// only runs in which every probe was accepted are compared.
	tries = 5
)

// pyradLoop is the program that uses pyrad.
//
//go:embed pyrad_loop.py
var pyradLoop string

// dictionary is the attributes of a request, for pyrad.
const dictionary = `ATTRIBUTE User-Name 1 string
ATTRIBUTE User-Password 2 string
ATTRIBUTE NAS-IP-Address 4 ipaddr
ATTRIBUTE NAS-Identifier 32 string
ATTRIBUTE Message-Authenticator 80 octets
`

// client is one of those that are compared. All send the same request, with the
// attributes that this prober's has, and check the answer's authenticators.
type client struct {
	name    string
	command func(port, probes int) (*exec.Cmd, error)
	// accepted reads from its output how many probes were accepted.
	accepted func(output string) (int, error)
	rates    sample // probes per CPU second
	walls    sample // probes per second
}

// comparePeers runs the clients in turn against one responder.
func comparePeers(ctx context.Context, args []string) error {
	flags := newFlags("peers")
	runs := flags.Int("runs", 7, "`number` of runs of each client")
	probes := flags.Int("probes", 100*parallel, "`number` of probes of a run, a multiple of 256")
	python := flags.String("python", "python3", "Python `program` that has pyrad")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *probes < parallel || *probes%parallel != 0 || *runs < 1 {
		return fmt.Errorf("-probes %d is no multiple of %d, or -runs %d is none", *probes, parallel, *runs)
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return fmt.Errorf("making a directory for the peers' files: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	clients, versions, err := peers(ctx, dir, *python)
	if err != nil {
		return err
	}
	port, stop, err := startServer(ctx, "respond")
	if err != nil {
		return err
	}
	defer stop()

	fmt.Println(machine.Line())
	fmt.Println(strings.Join(versions, ", "))
	fmt.Printf("%d runs of %d probes in turn: PAP with Message-Authenticator, the client alone on core %s, the responder on core %s\n\n",
		*runs, *probes, coreOfClient, coreOfServer)
	for range *runs {
		for _, c := range clients {
			err := c.run(port, *probes)
			for again := 1; err != nil && again < tries && ctx.Err() == nil; again++ {
				fmt.Printf("repeated: %v\n", err)
				err = c.run(port, *probes)
			}
			if err != nil {
				return err
			}
		}
	}
	printPeers(clients)
	return nil
}

// run is one run of a client.
func (c *client) run(port, probes int) error {
	command, err := c.command(port, probes)
	if err != nil {
		return err
	}
	out, used, err := measure(command)
	if err != nil {
		return err
	}
	accepted, err := c.accepted(out)
	if err != nil {
		return fmt.Errorf("reading the output of %s: %w\n%s", c.name, err, out)
	}
	if accepted != probes {
		return fmt.Errorf("%s: %d of %d probes were accepted, so that its figures cannot be compared", c.name, accepted, probes)
	}
	c.rates = append(c.rates, float64(probes)/used.cpu().Seconds())
	c.walls = append(c.walls, float64(probes)/used.wall.Seconds())
	return nil
}

// printPeers prints the table of docs/performance.md.
func printPeers(clients []*client) {
	fmt.Println("| client | probes per CPU second: median | least to most | ours is | probes per second: median |\n|---|---|---|---|---|")
	ours := clients[0].rates.median()
	for _, c := range clients {
		fmt.Printf("| %s | %.0f | %s | %.2f times | %.0f |\n", c.name, c.rates.median(), c.rates.spread(), ours/c.rates.median(), c.walls.median())
	}
}

// peers lists the clients, this prober first, and their versions.
func peers(ctx context.Context, dir, python string) ([]*client, []string, error) {
	if _, err := exec.LookPath("radclient"); err != nil {
		return nil, nil, errors.New("radclient is not installed: it is in Debian's package freeradius-utils")
	}
	versionOfRadclient, err := exec.CommandContext(ctx, "radclient", "-v").CombinedOutput()
	if err != nil {
		return nil, nil, fmt.Errorf("asking radclient for its version: %w", err)
	}
	versionOfPyrad, err := exec.CommandContext(ctx, python, "-c",
		"import platform; from importlib.metadata import version; print('pyrad', version('pyrad'), 'with Python', platform.python_version())").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("pyrad is not installed for %s: pip install --requirement infra/bench/prober/requirements.txt (make bench-peers does)", python)
	}
	request := fmt.Sprintf("User-Name = %q\nUser-Password = %q\nNAS-Identifier = %q\nNAS-IP-Address = 127.0.0.1\nMessage-Authenticator = 0x00\n\n",
		username, password, nasIdentifier)
	files := map[string]string{
		// radclient sends each request of its file again and again, but waits for the answer.
		"requests":      strings.Repeat(request, parallel),
		"pyrad_loop.py": pyradLoop,
		"dictionary":    dictionary,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, nil, fmt.Errorf("writing a peer's file: %w", err)
		}
	}
	number := func(out string) (int, error) { return strconv.Atoi(strings.TrimSpace(out)) }
	clients := []*client{
		{name: "radwitness", accepted: number, command: func(port, probes int) (*exec.Cmd, error) {
			return own(ctx, coreOfClient, "probe", "-port", strconv.Itoa(port), "-probes", strconv.Itoa(probes), "-parallel", strconv.Itoa(parallel))
		}},
		{name: "radclient -p 256", accepted: acceptedByRadclient, command: func(port, probes int) (*exec.Cmd, error) {
			return pinned(ctx, coreOfClient, "radclient", "-q", "-s", "-p", strconv.Itoa(parallel), "-c", strconv.Itoa(probes/parallel),
				"-r", "3", "-t", "1", "-f", filepath.Join(dir, "requests"), fmt.Sprintf("127.0.0.1:%d", port), "auth", secret), nil
		}},
		{name: "pyrad loop", accepted: number, command: func(port, probes int) (*exec.Cmd, error) {
			return pinned(ctx, coreOfClient, python, filepath.Join(dir, "pyrad_loop.py"), strconv.Itoa(port), strconv.Itoa(probes),
				filepath.Join(dir, "dictionary")), nil
		}},
	}
	first, _, _ := strings.Cut(string(versionOfRadclient), ",")
	return clients, []string{first, strings.TrimSpace(string(versionOfPyrad))}, nil
}

// acceptedByRadclient reads the summary that -s prints.
func acceptedByRadclient(out string) (int, error) {
	found := regexp.MustCompile(`Accepted\s*:\s*(\d+)`).FindStringSubmatch(out)
	if found == nil {
		return 0, errors.New("no summary")
	}
	return strconv.Atoi(found[1])
}
