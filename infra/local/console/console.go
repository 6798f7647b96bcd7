// Package console shows a lab to a person, and takes the person's orders: a live
// table and keys in a terminal, text and lines of commands anywhere else.
package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/mattn/go-isatty"

	"radwitness/infra/local/lab"
	"radwitness/pkg/probe/radiustest"
)

// Run shows the lab until the person quits or the context ends. about is a line
// to be told, such as where the functions' logs go.
func Run(ctx context.Context, l *lab.Lab, about string, in, out *os.File) error {
	if isatty.IsTerminal(in.Fd()) && isatty.IsTerminal(out.Fd()) {
		return live(ctx, l, about, in, out)
	}
	return lines(ctx, l, about, in, out)
}

// faultKeys are the faults that a person can switch, each by its word or key.
var faultKeys = []struct {
	key   string
	fault radiustest.Fault
}{
	{"n", radiustest.None},
	{"r", radiustest.RejectAll},
	{"d", radiustest.DropAll},
	{"s", radiustest.Slow},
	{"w", radiustest.WrongSecret},
	{"f", radiustest.Refuse},
}

// Faults lists the faults that a person can switch, none first.
func Faults() []radiustest.Fault {
	faults := make([]radiustest.Fault, len(faultKeys))
	for i, f := range faultKeys {
		faults[i] = f.fault
	}
	return faults
}

// order is what a person wants done to servers.
type order struct {
	servers []lab.Server
	remove  bool             // their targets, by hand
	fault   radiustest.Fault // to switch to, unless remove
}

// errQuit is the order to end.
var errQuit = errors.New("quit")

// parse reads a line like "2 reject-all", "none" (for all servers), "remove 2" or
// "quit". A server is a number of the table or a name.
func parse(line string, servers []lab.Server) (order, error) {
	words := strings.Fields(strings.ToLower(line))
	switch {
	case len(words) == 1 && (words[0] == "quit" || words[0] == "q"):
		return order{}, errQuit
	case len(words) == 1:
		fault, err := radiustest.ParseFault(words[0])
		return order{servers: servers, fault: fault}, err
	case len(words) == 2 && words[0] == "remove":
		chosen, err := choose(words[1], servers)
		return order{servers: chosen, remove: true}, err
	case len(words) == 2:
		chosen, err := choose(words[0], servers)
		if err != nil {
			return order{}, err
		}
		fault, err := radiustest.ParseFault(words[1])
		return order{servers: chosen, fault: fault}, err
	}
	return order{}, fmt.Errorf("%q is not a command", line)
}

// choose finds a server by its number, from 1, or its name.
func choose(word string, servers []lab.Server) ([]lab.Server, error) {
	if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= len(servers) {
		return servers[n-1 : n], nil
	}
	for i, s := range servers {
		if strings.EqualFold(s.Name, word) {
			return servers[i : i+1], nil
		}
	}
	return nil, fmt.Errorf("there is no server %q", word)
}

// carryOut does what is ordered, and says what was done.
func carryOut(ctx context.Context, l *lab.Lab, o order) string {
	var done []string
	for _, s := range o.servers {
		var err error
		if o.remove {
			err = l.RemoveTarget(ctx, s.Group, s.Name)
		} else {
			err = l.SetFault(s.Name, o.fault)
		}
		if err != nil {
			return err.Error()
		}
		done = append(done, s.Name)
	}
	if o.remove {
		return strings.Join(done, ", ") + ": target removed by hand"
	}
	return fmt.Sprintf("%s: fault %v", strings.Join(done, ", "), o.fault)
}
