// Package fleet is the configuration: the groups of RADIUS servers, how to
// probe them and what to do with the answers. Load reads fleet.yaml strictly,
// fills in the defaults and refuses what cannot work, naming file, line and key.
//
// The types here are the resolved form: every server carries its own complete
// settings, so nothing that uses them has to know about inheritance.
package fleet

import (
	"net/netip"
	"time"

	"radwitness/pkg/health"
)

// Fleet is a whole configuration, resolved and valid.
type Fleet struct {
	Version     string                // first 12 hex digits of the SHA-256 of the file and the overrides in force
	Credentials map[string]Credential // by name
	Groups      []Group               // in the order of the file
	Files       []string              // other files that it reads, relative to the file itself; sorted
	Deploy      *Deploy               // nil without the section, which only the CDK app needs
}

// Group is a set of servers that serve the same clients and share their fate.
type Group struct {
	Name              string
	Mode              Mode
	TargetGroups      []TargetGroup
	Prune             bool          // also deregister targets that no server here owns
	ServerMetrics     bool          // emit success rate and latency of each server too
	ReconcileInterval time.Duration // longest time between two looks at the target groups
	Below             int           // fewest servers in service before the group fails open; 0 fails closed
	Health            health.Policy
	Servers           []Server // in the order of the file
}

// Server is one RADIUS server.
type Server struct {
	Name       string
	Address    netip.Addr
	Admin      Admin
	Credential string  // key of Fleet.Credentials
	Checks     []Probe // at least one; all must pass
}

// Probe is how a server is probed: one of its checks.
type Probe struct {
	Row                  string // of table probes: the server's name, or NAME/METHOD of a server with several checks
	Method               Method
	Port                 uint16
	Interval             time.Duration // between the ticks of regular rounds
	FastInterval         time.Duration // from the end of a failed probe to the next one, until there is a verdict
	AttemptTimeout       time.Duration // wait for an answer to one transmission
	Attempts             int           // transmissions of the same packet
	Criteria             health.Criteria
	MessageAuthenticator MessageAuthenticator
	NASIdentifier        string
	Attributes           []Attribute // to add to every packet, sorted by name
	CABundle             string      // PEM of the CAs that may vouch for a server's certificate; empty checks no chain
	RequireValidCert     bool        // a certificate that CABundle does not vouch for is a failure
}

// Attribute is a RADIUS attribute in wire format.
type Attribute struct {
	Name   string // in the dictionary
	Vendor uint32 // SMI private enterprise number; 0 for a standard attribute
	Type   uint8
	Value  []byte // at most 253 octets, 247 with a vendor
}

// Budget is the longest that one probe can take.
func (p Probe) Budget() time.Duration {
	return time.Duration(p.Attempts) * p.AttemptTimeout
}

// StaleAfter is the age past which the newest conclusive result says nothing
// any more: three intervals, at least a minute.
func (p Probe) StaleAfter() time.Duration {
	return max(3*p.Interval, time.Minute)
}

// TargetGroup is an NLB target group that serves the group's servers.
type TargetGroup struct {
	ARN  string
	Port uint16 // port of the targets; 0 means the target group's own port
}

// Credential says where a shared secret, user name and password come from.
// Exactly one of its fields is set.
type Credential struct {
	SecretsManager string // ARN or name of a secret that holds JSON
	SSM            string // name of a SecureString parameter that holds JSON
	Env            string // prefix of environment variables
}

// Mode says whether decisions are carried out.
type Mode string

// The modes of a group.
const (
	Enforce Mode = "enforce"
	Observe Mode = "observe" // decide and record, change nothing
)

// Admin is the operator's word on a server.
type Admin string

// The operator's words.
const (
	AdminAuto Admin = "auto"
	AdminOut  Admin = "out" // never registered, still probed
)

// Method is the kind of RADIUS transaction that a probe makes.
type Method string

// The probe methods.
const (
	PAP          Method = "pap"           // RFC 2865 User-Password
	CHAP         Method = "chap"          // RFC 2865 CHAP-Password
	MSCHAPv2     Method = "mschapv2"      // RFC 2759 in RFC 2548 attributes
	StatusServer Method = "status-server" // RFC 5997
	Accounting   Method = "accounting"    // RFC 2866
	EAPMD5       Method = "eap-md5"       // RFC 3748 section 5.4 in RFC 3579
	PEAP         Method = "peap-mschapv2" // PEAPv0 with EAP-MSCHAPv2
	TTLS         Method = "eap-ttls-pap"  // RFC 5281
)

// UsesTLS tells whether the server shows a certificate.
func (m Method) UsesTLS() bool { return m == PEAP || m == TTLS }

// UsesEAP tells whether the method takes several transactions, of EAP.
func (m Method) UsesEAP() bool { return m == EAPMD5 || m.UsesTLS() }

// HasUser tells whether the method authenticates a user.
func (m Method) HasUser() bool { return m != StatusServer && m != Accounting }

// MessageAuthenticator says what is asked of the Message-Authenticator
// attribute (RFC 3579 section 3.2) in answers. Requests always carry one.
type MessageAuthenticator string

// The policies for Message-Authenticator.
const (
	MessageAuthenticatorAuto     MessageAuthenticator = "auto"     // check it when present; once seen, demand it
	MessageAuthenticatorRequired MessageAuthenticator = "required" // refuse answers without it
	MessageAuthenticatorOff      MessageAuthenticator = "off"      // never look at it
)

// Group returns the group with the given name.
func (f *Fleet) Group(name string) (Group, bool) {
	for _, g := range f.Groups {
		if g.Name == name {
			return g, true
		}
	}
	return Group{}, false
}

// GroupNames lists the groups, in the order of the file.
func (f *Fleet) GroupNames() []string {
	names := make([]string, len(f.Groups))
	for i, g := range f.Groups {
		names[i] = g.Name
	}
	return names
}

// ServerNames lists the servers, in the order of the file.
func (g Group) ServerNames() []string {
	names := make([]string, len(g.Servers))
	for i, s := range g.Servers {
		names[i] = s.Name
	}
	return names
}

// Server returns the server with the given name.
func (g Group) Server(name string) (Server, bool) {
	for _, s := range g.Servers {
		if s.Name == name {
			return s, true
		}
	}
	return Server{}, false
}

// UserCheck returns the first of the server's checks that authenticates a user,
// which is what a NAS does; false if there is none.
func (s Server) UserCheck() (Probe, bool) {
	for _, p := range s.Checks {
		if p.Method.HasUser() {
			return p, true
		}
	}
	return Probe{}, false
}

// Check returns the check whose row in table probes has the given name, and its
// server.
func (g Group) Check(row string) (Server, Probe, bool) {
	for _, s := range g.Servers {
		for _, p := range s.Checks {
			if p.Row == row {
				return s, p, true
			}
		}
	}
	return Server{}, Probe{}, false
}
