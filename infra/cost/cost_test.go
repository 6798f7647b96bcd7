package cost

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"radwitness/pkg/store"
	"radwitness/pkg/store/storetest"
)

var update = flag.Bool("update", false, "write the tables of docs/cost.md anew")

// fleets are those of the documentation.
func fleets() []Fleet {
	f := Fleet{Interval: 10 * time.Second, Shards: 1, Tasks: 1, Zones: 2}
	small, middle, large := f, f, f
	small.Servers, small.Groups = 4, 1
	middle.Servers, middle.Groups = 40, 4
	large.Servers, large.Groups, large.Shards = 400, 20, 2
	return []Fleet{small, middle, large}
}

func TestWorkedExamples(t *testing.T) {
	// By hand: 40 servers, 4 groups, every 20 seconds, log level debug.
	f := Fleet{Servers: 40, Groups: 4, Interval: 20 * time.Second, Shards: 1, Tasks: 2, Zones: 3, ServerMetrics: true, Debug: true}
	if err := f.validate(); err != nil {
		t.Fatal(err)
	}
	rounds := 131_400.0 // of each server: 2,628,000 s / 20 s
	batches := 4 * rounds * 1.5
	want := map[string]float64{
		"prober, running":      43_800 * 61 * 0.125 * 0.0000133334,
		"prober, invoked":      43_800 * 1.20e-6,
		"table probes, writes": 40 * rounds * 0.625e-6,
		// 40 ms a batch, and 1 ms and 0.1 ms a record of a processor of which 512 MB are 0.2894.
		"reconciler, running": (batches*(0.040+0.001/0.28943) + 40*rounds*0.0001/0.28943) * 0.5 * 0.0000133334,
		"reconciler, invoked": batches * 0.2e-6,
		"stream":              0,
		// Ten rows of 750 bytes are two units, their states of 350 bytes one.
		"both tables, reads": 4 * rounds * 1.5 * 3 * 0.125e-6,
		"metrics":            (4*8 + 40*2) * 0.30,
		"alarms":             25 * 0.10,
		"logs":               (4*(43_800*600+87_600*910) + (43_800+batches)*300 + rounds*(130+40*80)) / (1 << 30) * 0.50,
		"dashboard":          3, "secret": 0.40, "secret, reads": 2 * 8_760 * 5e-6,
	}
	got := Radwitness(f)
	for _, i := range got {
		if w, ok := want[i.Name]; !ok || math.Abs(i.Dollars()-w) > 0.001 {
			t.Errorf("%s: %.4f dollars, want %.4f", i.Name, i.Dollars(), w)
		}
		delete(want, i.Name)
	}
	if len(want) > 0 {
		t.Errorf("not in the bill: %v", want)
	}
	// Two tasks: 2 x 730 h x (0.25 x $0.04048 + 0.5 x $0.004445), 80 probes a round.
	witness := 2*730*(0.25*0.04048+0.5*0.004445) + 80*rounds*300/(1<<30)*0.50 + 0.40
	if got := Sum(Witness(f)); math.Abs(got-witness) > 0.001 {
		t.Errorf("AWS's container: %.4f dollars, want %.4f", got, witness)
	}
	if got := endpoints(witnessEndpoints, f).Dollars(); math.Abs(got-6*3*7.30) > 0.001 {
		t.Errorf("endpoints: %.4f dollars", got)
	}
}

// TestRowSize holds the size in the model against a row as the prober writes it,
// by the rules of "DynamoDB item sizes and formats" in DynamoDB's guide.
func TestRowSize(t *testing.T) {
	record, err := storetest.Record(1, store.ProbeRow{}, storetest.Row("vpn-auth", "ise-1", netip.MustParseAddr("10.0.1.10"), time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Dynamodb struct{ NewImage map[string]map[string]any }
	}
	if err := json.Unmarshal(record, &r); err != nil {
		t.Fatal(err)
	}
	size := len("expires_at") + 6
	for name, typed := range r.Dynamodb.NewImage {
		size += len(name)
		for kind, value := range typed {
			text, _ := value.(string)
			switch kind {
			case "S":
				size += len(text)
			case "N":
				size += (len(text)+1)/2 + 1
			default:
				size++
			}
		}
	}
	if size > 1024 || math.Abs(float64(size-rowBytes)) > 75 {
		t.Errorf("a row has %d bytes: the model says %d, and that a write is one unit", size, rowBytes)
	}
}

func TestCommand(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string // part of what is printed
	}{
		{"-servers 40 -interval 30s", 0, "servers 40, groups 4, a probe every 30s"},
		{"-h", 0, "-servers number"},
		{"-servers 0", 3, "-servers must be at least 1"},
		{"-servers 3 -groups 4", 3, "-groups must be"},
		{"-interval 7s", 3, "divide 60s"},
		{"-interval soon", 3, "invalid value"},
		{"-shards 0", 3, "-shards"}, {"-tasks 0", 3, "-tasks"}, {"-zones 0", 3, "-zones"},
		{"40", 3, `"40" is no argument`},
	} {
		var out bytes.Buffer
		if code := Command(strings.Fields(tt.args), &out, &out); code != tt.code || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: exit code %d, want %d, and:\n%s", tt.args, code, tt.code, out.String())
		}
	}
}

// tables are the parts of docs/cost.md that the model makes.
func tables(t *testing.T) map[string]string {
	var bill bytes.Buffer
	if err := Print(&bill, fleets()[1]); err != nil {
		t.Fatal(err)
	}
	text := "| dollars a month |"
	for _, f := range fleets() {
		text += fmt.Sprintf(" %d servers, groups: %d, shards: %d |", f.Servers, f.Groups, f.Shards)
	}
	text += "\n|---|---|---|---|\n"
	row := func(name string, cell func(Fleet) float64) {
		text += "| " + name + " |"
		for _, f := range fleets() {
			text += fmt.Sprintf(" %.2f |", cell(f))
		}
		text += "\n"
	}
	part := func(prefixes ...string) func(Fleet) float64 {
		return func(f Fleet) (sum float64) {
			for _, i := range Radwitness(f) {
				for _, p := range prefixes {
					if strings.HasPrefix(i.Name, p) {
						sum += i.Dollars()
					}
				}
			}
			return sum
		}
	}
	row("prober", part("prober"))
	row("writes of table probes", part("table probes"))
	row("reconciler, reads", part("reconciler", "both tables"))
	row("metrics", part("metrics"))
	row("alarms, dashboard", part("alarms", "dashboard"))
	row("logs", part("logs"))
	row("secret", part("secret"))
	row("**radwitness**", func(f Fleet) float64 { return Sum(Radwitness(f)) })
	row("AWS's container", func(f Fleet) float64 { return Sum(Witness(f)) })
	row("radwitness, with an endpoint in two zones", func(f Fleet) float64 { return Sum(Radwitness(f)) + endpoints(ourEndpoints, f).Dollars() })
	row("AWS's container, with endpoints in two zones", func(f Fleet) float64 { return Sum(Witness(f)) + endpoints(witnessEndpoints, f).Dollars() })
	return map[string]string{"bill": "```\n" + bill.String() + "```\n", "table": text}
}

// TestDocumentation holds what the documentation says against the model.
func TestDocumentation(t *testing.T) {
	const page = "../../docs/cost.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, content := range tables(t) {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for the %s", page, name)
		}
		want = before + begin + content + end + after
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s is not what the model says: run go test ./infra/cost -update", page)
	}

	sums := fmt.Sprintf("about $%.0f a month for 4 servers and $%.0f for 40", Sum(Radwitness(fleets()[0])), Sum(Radwitness(fleets()[1])))
	for _, page := range []string{"../../README.md", "../../docs/deploy.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), sums) {
			t.Errorf("%s does not say %q", page, sums)
		}
	}
}
