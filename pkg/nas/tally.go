package nas

import (
	"slices"
	"time"

	"radwitness/pkg/health"
)

// Server is a server of the NAS's list, for a tally.
type Server struct {
	Name     string
	Address  string
	Criteria health.Criteria // which answers let a user in
}

// Tally counts what becomes of logins.
type Tally struct {
	settings Settings
	servers  []Server
	traced   bool

	view  View
	waits []time.Duration
}

// NewTally makes a tally for a NAS with the given settings and servers. A traced
// one keeps every transmission.
func NewTally(name string, s Settings, servers []Server, traced bool) *Tally {
	t := &Tally{settings: s, servers: servers, traced: traced}
	t.view.Name, t.view.First = name, []int{}
	t.view.Servers = make([]ServerReport, len(servers))
	for i, server := range servers {
		t.view.Servers[i].Name, t.view.Servers[i].Address = server.Name, server.Address
	}
	return t
}

// Add counts a login that is over.
func (t *Tally) Add(l *Login) {
	v := &t.view
	v.Logins++
	t.waits = append(t.waits, l.Waited())
	first := l.Transmissions[0].Server
	v.Servers[first].Logins++
	if slices.ContainsFunc(l.Transmissions, func(p Transmission) bool { return p.Server != first }) {
		v.FailedOver++
	}
	if slices.ContainsFunc(l.Transmissions, func(p Transmission) bool {
		return Hears(p.Outcome) != Answer && p.Wait == t.settings.Timeout
	}) {
		v.Delayed++
	}
	for _, p := range l.Transmissions {
		v.Servers[p.Server].count(p.Outcome)
		if l.Number == 0 {
			v.First = append(v.First, p.Server+1)
		}
		if t.traced {
			v.Trace = append(v.Trace, Packet{
				Login: l.Number + 1, AtMS: milliseconds(p.At.Sub(l.Begun)), Server: t.servers[p.Server].Name,
				Outcome: p.Outcome, WaitMS: milliseconds(p.Wait),
			})
		}
	}
	if !l.Answered() {
		v.Unanswered++
		v.LetIn.Allow++
		return
	}
	last, _ := l.newest()
	v.Servers[last.Server].Share++ // until View makes a share of it
	if t.servers[last.Server].Criteria.Evidence(last.Outcome) == health.Success {
		v.LetIn.Deny++
		v.LetIn.Allow++
	}
}

// count adds a transmission.
func (s *ServerReport) count(o health.Outcome) {
	s.Transmissions++
	counter := &s.Invalid
	switch o {
	case health.Accept:
		counter = &s.Accepts
	case health.Reject:
		counter = &s.Rejects
	case health.Challenge:
		counter = &s.Challenges
	case health.Timeout:
		counter = &s.Timeouts
	case health.Refused:
		counter = &s.ICMPErrors
	}
	*counter++
}

// View returns what was counted, with how often each server became dead; nil if
// none ever does.
func (t *Tally) View(deaths []int) View {
	v := t.view
	v.Summary = t.Summary()
	v.Servers = slices.Clone(v.Servers)
	for i := range v.Servers {
		v.Servers[i].Share /= float64(max(v.Logins, 1))
		if deaths != nil {
			v.Servers[i].Dead = deaths[i]
		}
	}
	slices.SortStableFunc(v.Trace, func(a, b Packet) int { return a.Login - b.Login })
	return v
}

// Summary returns what was counted, without the servers.
func (t *Tally) Summary() Summary {
	s := t.view.Summary
	s.Wait.WorstMS = milliseconds(t.settings.WorstWait(len(t.servers)))
	if len(t.waits) > 0 {
		slices.Sort(t.waits)
		s.Wait.P50MS, s.Wait.P99MS = milliseconds(t.percentile(50)), milliseconds(t.percentile(99))
		s.Wait.MaxMS = milliseconds(t.waits[len(t.waits)-1])
	}
	return s
}

// percentile is the shortest wait that p of 100 logins do not exceed.
func (t *Tally) percentile(p int) time.Duration {
	return t.waits[(len(t.waits)*p+99)/100-1]
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
