package transport

import "time"

const (
	// maxWaiting is how many of a server's 256 identifiers are in use at once, so
	// that one rests before it is used again, and a free one is found soon.
	maxWaiting = 128
	// quarantine is how long an answer to a finished transaction is waited for: as
	// long as FreeRADIUS may take for a request, twice.
	quarantine = time.Minute
)

// identifiers are those of one server on one socket. They are used in turn.
type identifiers struct {
	next    byte
	waiting map[byte]*sharedConn // transactions under way
	late    map[byte]time.Time   // until when an answer to a finished one may come in
}

// reserve takes an identifier; false if too many are in use.
func (ids *identifiers) reserve(c *sharedConn) (byte, bool) {
	if len(ids.waiting) >= maxWaiting {
		return 0, false
	}
	for range 256 {
		id := ids.next
		ids.next++
		if ids.waiting[id] != nil || ids.expected(id) {
			continue
		}
		delete(ids.late, id)
		ids.waiting[id] = c
		return id, true
	}
	return 0, false
}

// release gives an identifier back. If not everything that was sent has been
// answered it is not used again for a while: a late answer would look like a
// wrong secret to the transaction that had it next.
func (ids *identifiers) release(id byte, answered bool) {
	delete(ids.waiting, id)
	if !answered {
		ids.late[id] = time.Now().Add(quarantine)
	}
}

// expected tells whether a late answer with the identifier may come in.
func (ids *identifiers) expected(id byte) bool {
	until, ok := ids.late[id]
	return ok && time.Now().Before(until)
}

// addressees calls f with the transactions that a datagram of the server may be
// for: the one with its identifier, or all if there is none. A late answer is for
// nobody.
func (ids *identifiers) addressees(datagram []byte, f func(*sharedConn)) {
	if len(datagram) >= headerLength {
		if c := ids.waiting[datagram[1]]; c != nil {
			c.answered++
			f(c)
			return
		}
		if ids.expected(datagram[1]) {
			return
		}
	}
	for _, c := range ids.waiting {
		f(c)
	}
}
