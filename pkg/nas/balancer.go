package nas

import "time"

// balancer is how Cisco IOS asks with "load-balance method least-outstanding".
// Logins come in batches: a batch goes to the server with the fewest logins that
// wait for it. A user who has been answered goes back to the same server, the
// preferred one, outside of batches. A server that does not answer gets Retries
// retransmissions, and then the next server of the list is asked.
//
// A server is dead when both criteria are met: so many retransmissions in a row
// without an answer, first transmissions not counted, and so long since its last
// answer. It is skipped until the dead time is over, unless all are; then it is
// in quarantine until it answers the automated tester, and dead again if it does
// not.
//
// Sources: Cisco, "RADIUS Server Load Balancing" and "Configuring AAA Dead-Server
// Detection",
// https://www.cisco.com/c/en/us/td/docs/ios-xml/ios/sec_usr_rad/configuration/xe-16/sec-usr-rad-xe-16-book/sec-rad-load-bal.html
// https://www.cisco.com/c/en/us/td/docs/switches/lan/catalyst9500/software/release/16-12/configuration_guide/sec/b_1612_sec_9500_cg/configuring_aaa_dead-server_detection.html
//
// What they leave open: of servers with equally few logins the one after the last
// batch's in the list is taken; the tester makes one transmission, as soon as
// there is a login after the dead time; and an ICMP error is no answer, which is
// waited for all the same.
type balancer struct {
	settings  Settings
	servers   []standing
	batch     int         // server of the batch
	left      int         // logins left in it
	preferred map[int]int // server that answered last, by user
}

// standing is what the balancer knows of a server.
type standing struct {
	state       state
	outstanding int       // logins that wait for it
	tries       int       // retransmissions in a row without an answer
	heard       time.Time // of its last answer, zero if there was none
	until       time.Time // end of the dead time
	deaths      int
}

// state is how a server stands with a balancer.
type state int

const (
	live state = iota
	dead
	quarantined // being tested
)

func newBalancer(s Settings, servers int) *balancer {
	return &balancer{settings: s, servers: make([]standing, servers), batch: servers - 1, preferred: map[int]int{}}
}

func (b *balancer) next(l *Login, _ time.Time) (int, bool) {
	last, begun := l.newest()
	server, ok := last.Server, true
	switch {
	case !begun:
		server = b.first(l.User)
	case l.sent[server] > b.settings.Retries:
		server, ok = b.failOver(l, server)
	}
	if ok {
		b.servers[server].outstanding++
	}
	return server, ok
}

// first picks the server of a login's first transmission.
func (b *balancer) first(user int) int {
	if server, ok := b.preferred[user]; ok && !b.settings.IgnorePreferred && b.servers[server].state == live {
		return server
	}
	if b.left == 0 || !b.usable(b.batch) {
		b.batch, b.left = b.leastOutstanding(), b.settings.Batch
	}
	b.left--
	return b.batch
}

// leastOutstanding picks the server of a new batch.
func (b *balancer) leastOutstanding() int {
	least := -1
	for i := range b.servers {
		server := (b.batch + 1 + i) % len(b.servers)
		if b.usable(server) && (least < 0 || b.servers[server].outstanding < b.servers[least].outstanding) {
			least = server
		}
	}
	return least
}

// failOver picks the next server of the list that the login has not asked yet.
func (b *balancer) failOver(l *Login, from int) (int, bool) {
	for i := range b.servers {
		server := (from + 1 + i) % len(b.servers)
		if l.sent[server] == 0 && b.usable(server) {
			return server, true
		}
	}
	return 0, false
}

// usable tells whether logins may go to a server: if it is live, or no server is.
func (b *balancer) usable(server int) bool {
	for _, s := range b.servers {
		if s.state == live {
			return b.servers[server].state == live
		}
	}
	return true
}

func (b *balancer) heard(l *Login, h Heard, now time.Time) {
	newest, _ := l.newest()
	server := newest.Server
	s := &b.servers[server]
	s.outstanding--
	if h == Answer {
		s.state, s.tries, s.heard = live, 0, now
		if l.User != Nobody {
			b.preferred[l.User] = server
		}
		return
	}
	if l.sent[server] > 1 {
		s.tries++
	}
	silent := now.Sub(s.heard) >= b.settings.DeadSilence // also if it has never answered
	if s.state == live && s.tries >= b.settings.DeadAfter && silent && b.settings.DeadTime > 0 {
		b.bury(s, now)
	}
}

// bury begins a server's dead time.
func (b *balancer) bury(s *standing, now time.Time) {
	s.state, s.tries, s.until = dead, 0, now.Add(b.settings.DeadTime)
	s.deaths++
}

func (b *balancer) heedsICMP() bool { return false }

// test puts a server whose dead time is over into quarantine.
func (b *balancer) test(now time.Time) (int, bool) {
	for i := range b.servers {
		if s := &b.servers[i]; s.state == dead && !now.Before(s.until) {
			s.state = quarantined
			return i, true
		}
	}
	return 0, false
}

func (b *balancer) tested(server int, h Heard, now time.Time) {
	s := &b.servers[server]
	switch {
	case h == Answer:
		s.state, s.tries, s.heard = live, 0, now
	case s.state == quarantined: // a login may have found it live meanwhile
		b.bury(s, now)
	}
}
