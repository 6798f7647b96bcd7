package nas

import "time"

// list is how Meraki's access points and dashboard ask: down a list, up to three
// rounds by default, the next server after a timeout or an ICMP error. Any valid
// answer ends it. With the list rotated, each login begins one further down.
//
// Source: Cisco Meraki, "RADIUS Failover and Retry Details",
// https://documentation.meraki.com/MR/Encryption_and_Authentication/RADIUS_Failover_and_Retry_Details
type list struct {
	rotate          bool
	rounds, servers int
}

func (p list) next(l *Login, _ time.Time) (int, bool) {
	sent := len(l.Transmissions)
	if sent == p.rounds*p.servers {
		return 0, false
	}
	if p.rotate {
		sent += l.Number
	}
	return sent % p.servers, true
}

func (list) heard(*Login, Heard, time.Time) {}

func (list) heedsICMP() bool { return true }
