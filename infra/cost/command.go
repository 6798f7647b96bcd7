package cost

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Command prints the bill that the arguments describe, and returns the exit code.
func Command(args []string, out, errs io.Writer) int {
	f := Fleet{}
	flags := flag.NewFlagSet("cost", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.IntVar(&f.Servers, "servers", 4, "`number` of servers")
	flags.IntVar(&f.Groups, "groups", 0, "`number` of groups; 0 is one for every ten servers")
	flags.DurationVar(&f.Interval, "interval", 10*time.Second, "`time` between two probes of a server")
	flags.IntVar(&f.Shards, "shards", 1, "`number` of the prober's shards")
	flags.BoolVar(&f.ServerMetrics, "server-metrics", false, "metrics of every server")
	flags.BoolVar(&f.Debug, "debug", false, "log every round with all its servers")
	flags.IntVar(&f.Tasks, "tasks", 1, "`number` of tasks of AWS's container")
	flags.IntVar(&f.Zones, "zones", 2, "`number` of zones with interface endpoints, where you create them")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 3
	}
	if f.Groups == 0 {
		f.Groups = (f.Servers + 9) / 10
	}
	err := f.validate()
	if flags.NArg() > 0 {
		err = fmt.Errorf("%q is no argument of this command", flags.Arg(0))
	}
	if err != nil {
		_, _ = fmt.Fprintln(errs, "cost:", err)
		return 3
	}
	if err := Print(out, f); err != nil {
		_, _ = fmt.Fprintln(errs, "cost:", err)
		return 1
	}
	return 0
}

// Print writes both bills.
func Print(out io.Writer, f Fleet) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	var text strings.Builder
	fmt.Fprintf(&text, "servers %d, groups %d, a probe every %s; us-east-1, on demand, %d hours, no free tier\n\n", f.Servers, f.Groups, f.Interval, hoursInMonth)
	bill := func(title string, items []Item, endpoint Item) {
		fmt.Fprintf(&text, "%-42s\tquantity\t\tdollars each\tdollars a month\t\n", title)
		for _, i := range items {
			line(&text, i)
		}
		fmt.Fprintf(&text, "%-42s\t\t\t\t%.2f\t\n", "sum", Sum(items))
		line(&text, endpoint)
		fmt.Fprintf(&text, "%-42s\t\t\t\t%.2f\t\n", fmt.Sprintf("sum with endpoints in %d zones", f.Zones), Sum(items)+endpoint.Dollars())
	}
	bill("radwitness", Radwitness(f), endpoints(ourEndpoints, f))
	text.WriteString("\n")
	bill(fmt.Sprintf("AWS's container, %d x %.2f vCPU and %.1f GB", f.Tasks, taskVCPU, taskGB), Witness(f), endpoints(witnessEndpoints, f))
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	return w.Flush()
}

func line(text *strings.Builder, i Item) {
	fmt.Fprintf(text, "%-42s\t%s\t%s\t%s\t%.2f\t\n", i.Name, quantity(i.Quantity), i.Unit, strconv.FormatFloat(i.Price, 'f', -1, 64), i.Dollars())
}

// quantity writes large numbers without and small ones with decimals.
func quantity(q float64) string {
	if q < 1000 && q != float64(int(q)) {
		return fmt.Sprintf("%.2f", q)
	}
	digits := fmt.Sprintf("%.0f", q)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
