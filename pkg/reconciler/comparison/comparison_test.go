package comparison

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const outages = 10_000

// contender is a method with its name in the table.
type contender struct {
	name string
	make func(o outage, rng *rand.Rand) method
}

func contenders() []contender {
	return []contender{
		{"radwitness", func(o outage, _ *rand.Rand) method { return newRadwitness(o) }},
		{"AWS sample's algorithm", func(o outage, rng *rand.Rand) method {
			return newSample(o, time.Duration(rng.Int64N(int64(30*time.Second))))
		}},
		{"Cisco dead-criteria", func(o outage, _ *rand.Rand) method { return &cisco{outage: o} }},
		{"FreeRADIUS home_server", func(o outage, _ *rand.Rand) method { return &freeradius{outage: o} }},
	}
}

// kind is a kind of outage.
type kind struct {
	name string
	is   func(outage) bool
}

func kinds() []kind {
	return []kind{
		{"one server silent", func(o outage) bool { return !o.common && o.silent }},
		{"one server rejects all", func(o outage) bool { return !o.common && !o.silent }},
		{"all servers, one cause", func(o outage) bool { return o.common }},
	}
}

// run plays the outages to a method. Every method gets the same ones.
func run(c contender, n int) ([]outage, []result) {
	drawn, results := make([]outage, n), make([]result, n)
	var workers sync.WaitGroup
	for w := range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := w; i < n; i += runtime.GOMAXPROCS(0) {
				drawn[i] = draw(rand.New(rand.NewPCG(uint64(i), 0)))
				rng := rand.New(rand.NewPCG(uint64(i), 1))
				results[i] = play(drawn[i], c.make(drawn[i], rng), rng)
			}
		})
	}
	workers.Wait()
	return drawn, results
}

// quantile of sorted values; zero if there are none.
func quantile[T any](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// table is the rows of docs/comparison.md, and the numbers of its picture.
type table struct {
	strings.Builder
	lost   [][]float64 // mean requests, by contender and kind
	notice [][]float64 // mean seconds, by contender and kind; zero if none was noticed
}

// noticeable is how long an outage lasts that every method which probes has
// noticed before its end, so that all are measured by the same outages.
const noticeable = 90 * time.Second

func compare(n int) *table {
	t := &table{}
	t.WriteString("| | lost requests per outage: mean | p50 | p99 | time to removal: mean | p50 | p99 | never removed | time to return: mean | p50 | p99 |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range contenders() {
		drawn, results := run(c, n)
		lost := pick(results, func(r result) (int, bool) { return r.lost, true })
		removal := pick(results, func(r result) (time.Duration, bool) { return r.removal, r.removal >= 0 })
		comeback := pick(results, func(r result) (time.Duration, bool) { return r.comeback, r.comeback >= 0 })
		fmt.Fprintf(&t.Builder, "| %s | %.0f | %d | %d | %s | %.0f %% | %s |\n", c.name, mean(lost), quantile(lost, 0.5), quantile(lost, 0.99),
			durations(removal), 100*float64(n-len(removal))/float64(n), durations(comeback))
		var meanLost, meanNotice []float64
		for _, k := range kinds() {
			var all, long []result
			for i, r := range results {
				if o := drawn[i]; k.is(o) {
					all = append(all, r)
					if o.to[0]-o.from[0] >= noticeable {
						long = append(long, r)
					}
				}
			}
			meanLost = append(meanLost, mean(pick(all, func(r result) (int, bool) { return r.lost, true })))
			meanNotice = append(meanNotice, mean(pick(long, func(r result) (float64, bool) { return r.notice.Seconds(), r.notice >= 0 })))
		}
		t.lost, t.notice = append(t.lost, meanLost), append(t.notice, meanNotice)
	}
	t.byKind("mean lost requests", kinds(), func(c, k int) string { return fmt.Sprintf("%.0f", t.lost[c][k]) })
	// What all servers share is noticed by keeping them in.
	t.byKind("mean time to notice, and part of the AWS sample's", kinds()[:2], func(c, k int) string {
		seconds, sample := t.notice[c][k], t.notice[1][k]
		if seconds == 0 {
			return "never"
		}
		return fmt.Sprintf("%.1f s, %.1f %%", seconds, 100*seconds/sample)
	})
	t.WriteString("\n| false removals per million probes | 1 % loss, 3 transmissions | 5 %, 3 transmissions | 1 %, 1 transmission | 5 %, 1 transmission |\n|---|---|---|---|---|\n")
	for _, c := range []struct {
		name   string
		needed int // failures in a row
	}{
		{"radwitness, and the AWS sample's algorithm", 3},
		{"Cisco dead-criteria", 16},    // requests in five seconds, at ten a second to three servers
		{"FreeRADIUS home_server", 66}, // and in its response window
	} {
		fmt.Fprintf(&t.Builder, "| %s |", c.name)
		for _, transmissions := range []int{3, 1} {
			for _, loss := range []float64{0.01, 0.05} {
				fmt.Fprintf(&t.Builder, " %s |", falseRemovals(loss, transmissions, c.needed))
			}
		}
		t.WriteString("\n")
	}
	return t
}

// byKind writes a table with a row for each contender and a column for each kind.
func (t *table) byKind(title string, kinds []kind, cell func(contender, kind int) string) {
	fmt.Fprintf(&t.Builder, "\n| %s |", title)
	for _, k := range kinds {
		t.WriteString(" " + k.name + " |")
	}
	t.WriteString("\n|---|" + strings.Repeat("---|", len(kinds)) + "\n")
	for c, contender := range contenders() {
		fmt.Fprintf(&t.Builder, "| %s |", contender.name)
		for k := range kinds {
			t.WriteString(" " + cell(c, k) + " |")
		}
		t.WriteString("\n")
	}
}

// pick lists, in order, what the results have of one figure.
func pick[T cmp.Ordered](results []result, figure func(result) (T, bool)) []T {
	var list []T
	for _, r := range results {
		if v, ok := figure(r); ok {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	return list
}

// mean of values; zero if there are none.
func mean[T int | time.Duration | float64](list []T) float64 {
	var sum T
	for _, v := range list {
		sum += v
	}
	return float64(sum) / float64(max(len(list), 1))
}

// durations writes mean, median and 99th percentile of sorted times.
func durations(sorted []time.Duration) string {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }
	return seconds(time.Duration(mean(sorted))) + " | " + seconds(quantile(sorted, 0.5)) + " | " + seconds(quantile(sorted, 0.99))
}

// falseRemovals counts how often packet loss alone takes a well server out. A
// transmission fails if the request or the answer is lost.
func falseRemovals(loss float64, transmissions, needed int) string {
	const probes = 20_000_000
	rng := rand.New(rand.NewPCG(1, uint64(loss*1000)+uint64(transmissions)))
	made, removals := 0, 0
	for inARow := 0; made < probes; made++ {
		failed := true
		for range transmissions {
			failed = failed && rng.Float64() < 1-(1-loss)*(1-loss)
		}
		if !failed {
			inARow = 0
			continue
		}
		if inARow++; inARow == needed {
			removals, inARow = removals+1, 0
		}
	}
	if removals == 0 {
		return fmt.Sprintf("0 in %d million", probes/1_000_000)
	}
	return fmt.Sprintf("%.2f", float64(removals)*1e6/float64(made))
}

// svg is the picture: per kind of outage one bar for each contender.
func (t *table) svg() string {
	colours := []string{"#1b6ca8", "#e07b39", "#7a7a7a", "#b5a642"}
	const width, bar, gap, left = 860, 18, 34, 190
	largest := 1.0
	for _, means := range t.lost {
		largest = max(largest, slices.MaxFunc(means, cmp.Compare))
	}
	var b strings.Builder
	y := 40
	for k, kind := range kinds() {
		fmt.Fprintf(&b, `<text x="12" y="%d" font-weight="bold">%s</text>`+"\n", y-6, kind.name)
		for i, c := range contenders() {
			w := t.lost[i][k] / largest * (width - left - 90)
			fmt.Fprintf(&b, `<text x="12" y="%d">%s</text><rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/><text x="%.1f" y="%d">%.0f</text>`+"\n",
				y+bar-4, c.name, left, y, w, bar-3, colours[i], left+w+6, y+bar-4, t.lost[i][k])
			y += bar
		}
		y += gap
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
<rect width="100%%" height="100%%" fill="#ffffff"/>
<text x="12" y="14">Mean number of client requests lost per outage, at ten requests a second</text>
%s</svg>
`, width, y, b.String())
}

// TestComparison plays a few outages always; COMPARE=1 plays all, prints the
// table and writes it into the documentation.
func TestComparison(t *testing.T) {
	if os.Getenv("COMPARE") == "" {
		for _, c := range contenders() {
			_, results := run(c, 20)
			for i, r := range results {
				if r.lost < 0 || r.comeback > settle {
					t.Errorf("%s, outage %d: %+v", c.name, i, r)
				}
			}
		}
		return
	}
	tab := compare(outages)
	fmt.Println(tab.String())
	const page, begin, end = "../../../docs/comparison.md", "<!-- table -->\n", "<!-- end -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the page has no place for the table")
	}
	if err := os.WriteFile(page, []byte(before+begin+tab.String()+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("../../../docs/comparison.svg", []byte(tab.svg()), 0o600); err != nil {
		t.Fatal(err)
	}
}
