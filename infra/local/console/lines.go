package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"

	"radwitness/infra/local/lab"
)

const (
	watchInterval  = 500 * time.Millisecond
	repeatInterval = 10 * time.Second // between two tables when nothing happens
)

// lines prints the table whenever something has changed, and now and then, and
// takes commands line by line.
func lines(ctx context.Context, l *lab.Lab, about string, in io.Reader, out io.Writer) error {
	p := painter{lipgloss.NewRenderer(out), l.Faults()}
	if _, err := fmt.Fprintf(out, "radwitness on this machine, %s\n%s\n", about, help(p.faults)); err != nil {
		return err
	}
	commands := read(ctx, in)
	var printed string
	var printedAt time.Time
	for {
		view, err := l.View(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if s := signature(view); s != printed || time.Since(printedAt) >= repeatInterval {
			printed, printedAt = s, time.Now()
			none := func(int) bool { return false }
			if _, err := fmt.Fprintf(out, "\n%s\n%s\n", printedAt.Format(time.TimeOnly), p.draw(view, printedAt, none)); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchInterval):
		case line := <-commands:
			o, err := parse(line, view.Servers())
			switch {
			case errors.Is(err, errQuit):
				return nil
			case err != nil:
				_, err = fmt.Fprintf(out, "%v\n%s\n", err, help(p.faults))
			default:
				_, err = fmt.Fprintln(out, carryOut(ctx, l, o))
			}
			if err != nil {
				return err
			}
		}
	}
}

// help says which commands there are.
func help(faults bool) string {
	text := "commands: remove SERVER (its target, by hand) | quit"
	if faults {
		words := make([]string, len(faultKeys))
		for i, f := range faultKeys {
			words[i] = f.fault.String()
		}
		text = "commands: [SERVER] FAULT, all servers if none is named | " + text[len("commands: "):] +
			"\nSERVER is a number or a name; FAULT is " + strings.Join(words, ", ")
	}
	return text
}

// read sends the lines that are not empty. At the end of input it just sends no
// more: the lab goes on until it is stopped otherwise.
func read(ctx context.Context, in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		scanner := bufio.NewScanner(in)
		for scanner.Scan() {
			if strings.TrimSpace(scanner.Text()) == "" {
				continue
			}
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// signature is what of a view is worth a new table when it changes.
func signature(v lab.View) string {
	var parts []string
	for _, g := range v {
		parts = append(parts, string(g.Row.Case), fmt.Sprint(g.Row.FailOpen), g.Row.PassError)
		for _, s := range g.Servers {
			parts = append(parts, string(s.State.Status), string(s.Probe.Outcome), fmt.Sprint(s.Registered), s.Fault)
		}
		if len(g.Transitions) > 0 {
			parts = append(parts, g.Transitions[0].At.String())
		}
	}
	return strings.Join(parts, "|")
}
