package nas

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the report for people.
func (r Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Group %s, %s\n", r.Group, r.Settings)
	if r.Recorded {
		fmt.Fprintf(&b, "Recorded from %s to %s\n", stamp(r.From), stamp(r.To))
	}
	for _, v := range r.Views {
		b.WriteByte('\n')
		v.write(&b)
	}
	for _, o := range r.Outages {
		b.WriteByte('\n')
		o.write(&b)
	}
	if len(r.Notes) > 0 {
		b.WriteByte('\n')
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "Note: %s\n", note)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// String says the settings in a line.
func (s SettingsReport) String() string {
	timeout := seconds(s.TimeoutMS)
	if s.Strategy != LeastOutstanding {
		return fmt.Sprintf("%s: %d rounds, %s for each transmission", s.Strategy, 1+s.Retries, timeout)
	}
	text := fmt.Sprintf("%s: batches of %d, %d retransmissions, %s for each transmission", s.Strategy, s.Batch, s.Retries, timeout)
	if s.DeadTimeMS > 0 {
		text += fmt.Sprintf(", dead for %s after %d retransmissions and %s in silence",
			seconds(s.DeadTimeMS), s.DeadAfter, seconds(s.DeadSilenceMS))
	}
	return text
}

func (v View) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "%s: %s\n", v.Name, count(v.Logins, "login"))
	for _, p := range v.Trace {
		fmt.Fprintf(b, "  login %-5d %+9.3fs  %-20s %-17s %.3fs\n", p.Login, p.AtMS/1000, p.Server, p.Outcome, p.WaitMS/1000)
	}
	dead := false
	for _, s := range v.Servers {
		dead = dead || s.Dead > 0
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintf(table, "  %s\n", strings.Join(cells, "\t")) }
	header := []string{"#", "SERVER", "ADDRESS", "FIRST", "PACKETS", "ACCEPT", "REJECT", "CHALLENGE", "TIMEOUT", "ICMP", "INVALID", "SHARE"}
	if dead {
		header = append(header, "DEAD")
	}
	row(header...)
	for i, s := range v.Servers {
		cells := []string{strconv.Itoa(i + 1), s.Name, s.Address}
		for _, n := range []int{s.Logins, s.Transmissions, s.Accepts, s.Rejects, s.Challenges, s.Timeouts, s.ICMPErrors, s.Invalid} {
			cells = append(cells, strconv.Itoa(n))
		}
		cells = append(cells, fmt.Sprintf("%.0f%%", 100*s.Share))
		if dead {
			cells = append(cells, strconv.Itoa(s.Dead))
		}
		row(cells...)
	}
	_ = table.Flush() // into memory
	fmt.Fprintf(b, "  first login  asked %s\n", order(v.First))
	v.Summary.write(b, len(v.Servers))
}

// write says what users saw; servers is the length of the NAS's list.
func (s Summary) write(b *bytes.Buffer, servers int) {
	fmt.Fprintf(b, "  delayed      %s waited a timeout in vain, %d asked more than one server\n", count(s.Delayed, "login"), s.FailedOver)
	fmt.Fprintf(b, "  waits        %s\n", s.Wait.text(servers))
	fmt.Fprintf(b, "  let in       %d of %d under failover policy deny, %d under allow; %d without an answer\n",
		s.LetIn.Deny, s.Logins, s.LetIn.Allow, s.Unanswered)
}

func (w WaitTime) text(servers int) string {
	return fmt.Sprintf("p50 %s, p99 %s, max %s; with %s it can be %s", seconds(w.P50MS), seconds(w.P99MS), seconds(w.MaxMS), count(servers, "server"), seconds(w.WorstMS))
}

func (o Outage) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "Outage from %s to %s (%v): %s\n", stamp(o.From), stamp(o.To), o.To.Sub(o.From).Round(time.Second), strings.Join(o.Failing, ", "))
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "  NAS\tLOGINS\tDELAYED\tP50\tP99\tMAX\tLET IN: DENY\tALLOW\tUNANSWERED")
	for _, s := range o.Views {
		_, _ = fmt.Fprintf(table, "  %s\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%d\n", s.Name, s.Logins, s.Delayed,
			seconds(s.Wait.P50MS), seconds(s.Wait.P99MS), seconds(s.Wait.MaxMS), s.LetIn.Deny, s.LetIn.Allow, s.Unanswered)
	}
	_ = table.Flush()
}

// order writes the order of transmissions.
func order(first []int) string {
	texts := make([]string, len(first))
	for i, n := range first {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// seconds writes milliseconds as a duration of sensible precision.
func seconds(ms float64) string {
	return time.Duration(ms * float64(time.Millisecond)).Round(100 * time.Microsecond).String()
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
