package replay

import (
	"time"

	"radwitness/pkg/health"
	"radwitness/pkg/nas"
)

// The views of a replay.
const (
	Listed = "all servers listed by the NAS"
	Behind = "behind the NLB"
)

// Test is a NAS to live through the past.
type Test struct {
	Settings nas.Settings
	Servers  []int // of the group, in the order of the NAS's list
	Logins   int   // spread evenly over the time
	Users    int   // who log in in turn; 0 if nobody comes back
	Trace    bool  // keep every transmission
}

// Notes say what the figures of a replay leave out.
func Notes() []string {
	return []string{
		"an answer takes no time here, as the history does not have its latency",
		"behind the NLB each login is a flow of its own; a NAS that always sends from one port may stay with a target that is out",
	}
}

// Run lives through the past in both ways.
func (p *Past) Run(t Test) ([]nas.View, []nas.Outage, error) {
	outages := p.outages()
	reports := make([]nas.Outage, len(outages))
	for i, o := range outages {
		reports[i] = nas.Outage{From: o.from, To: o.to, Failing: o.failing}
	}
	var views []nas.View
	for _, w := range []world{listed{p, t.Servers}, behind{p}} {
		client, err := nas.New(t.Settings, len(w.servers()))
		if err != nil {
			return nil, nil, err
		}
		all := nas.NewTally(w.name(), t.Settings, w.servers(), t.Trace)
		during := make([]*nas.Tally, len(outages))
		for i := range outages {
			during[i] = nas.NewTally(w.name(), t.Settings, w.servers(), false)
		}
		over := func(login *nas.Login) {
			all.Add(login)
			for i, o := range outages {
				if !login.Begun.Before(o.from) && login.Begun.Before(o.to) {
					during[i].Add(login)
				}
			}
		}
		(&life{world: w, client: client, over: over}).live(p.From, p.To, t)
		views = append(views, all.View(client.Deaths()))
		for i := range outages {
			reports[i].Views = append(reports[i].Views, during[i].Summary())
		}
	}
	return views, reports, nil
}

// world is what a NAS has before it.
type world interface {
	name() string
	servers() []nas.Server
	// answer is what comes of a transmission of a flow that began earlier.
	answer(f flow, server int, at time.Time) health.Outcome
}

// flow is one address and port of the NAS's, from which a login sends.
type flow struct {
	number int
	begun  time.Time
}

// listed is a NAS that lists the servers themselves.
type listed struct {
	past  *Past
	order []int
}

func (listed) name() string { return Listed }

func (w listed) servers() []nas.Server {
	list := make([]nas.Server, len(w.order))
	for i, n := range w.order {
		s := w.past.servers[n]
		list[i] = nas.Server{Name: s.Name, Address: s.Address.String(), Criteria: s.check.Criteria}
	}
	return list
}

func (w listed) answer(_ flow, server int, at time.Time) health.Outcome {
	return w.past.servers[w.order[server]].answers.at(at)
}

// behind is a NAS that knows only the NLB. A login is one flow, which stays with
// its target; another login is another flow.
type behind struct{ past *Past }

func (behind) name() string { return Behind }

func (w behind) servers() []nas.Server {
	return []nas.Server{{Name: "nlb", Address: "-", Criteria: w.past.servers[0].check.Criteria}}
}

func (w behind) answer(f flow, _ int, at time.Time) health.Outcome {
	targets := w.past.behind(f.begun)
	if len(targets) == 0 {
		return health.Timeout
	}
	return w.past.servers[targets[scatter(f.number)%uint64(len(targets))]].answers.at(at)
}

// scatter stands for the NLB's hash over addresses and ports: it is the same for
// every run. It is the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
func scatter(n int) uint64 {
	z := uint64(n+1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
