package prober

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"radwitness/pkg/credentials"
	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
)

// lookupTimeout is how long a failure waits for other versions of a secret
// before it counts. The fetch itself goes on, for the next probe.
const lookupTimeout = time.Second

// finding is the result of a probe, and the stage of the credentials that it
// was made with.
type finding struct {
	probe.Result
	stage credentials.Stage
}

// worked is the stage to record: that of a success.
func (f finding) worked(m member) string {
	if m.check.Criteria.Evidence(f.Outcome) != health.Success {
		return ""
	}
	return string(f.stage)
}

// ownFault is a probe that could not be made. It says nothing about the server.
func ownFault(reason string) finding {
	return finding{Result: probe.Result{Outcome: health.ProberError, Reason: reason}}
}

// key is a version of the credentials that may open a server.
type key struct {
	probe.Credentials
	stage credentials.Stage
}

// probe asks a server. While a secret is being rotated some servers know the
// new one and some the old one, so before it says that a server failed it tries
// every version that the failure could come from: first the one that worked
// last, with all the attempts that the check has, then the others with a single
// transmission each.
func (p *Prober) probe(ctx context.Context, m member) finding {
	begin := time.Now()
	row, _ := p.row(m.key)
	first, err := p.firstKey(ctx, m, credentials.Stage(row.CredentialStage))
	if err != nil {
		return ownFault(err.Error())
	}
	found := p.transact(ctx, m, first, m.check.Attempts)
	if m.mayBeCredentials(found) {
		tried := []key{first}
		for _, k := range p.otherKeys(ctx, m, row.ConsecutiveFailures == 0) {
			if slices.ContainsFunc(tried, func(old key) bool { return !k.differs(old, found.Outcome) }) {
				continue
			}
			tried = append(tried, k)
			again := p.transact(ctx, m, k, 1)
			again.Transactions += found.Transactions
			again.Transmissions += found.Transmissions
			if m.check.Criteria.Evidence(again.Outcome) == health.Success {
				found = again
				break
			}
			found.Transactions, found.Transmissions = again.Transactions, again.Transmissions
		}
	}
	found.Duration = time.Since(begin)
	return found
}

// firstKey is the version to begin with: the current one, unless the previous
// one worked last and is still there.
func (p *Prober) firstKey(ctx context.Context, m member, last credentials.Stage) (key, error) {
	if last == credentials.Previous {
		if old, ok := p.Credentials.Previous(ctx, m.credential); ok {
			return key{old, credentials.Previous}, nil
		}
	}
	now, err := p.Credentials.Get(ctx, m.credential)
	return key{now, credentials.Current}, err
}

// otherKeys lists the versions to try before a failure counts. The first
// failure after a success may be the first sign of a rotation, so then the
// current version is fetched again.
func (p *Prober) otherKeys(ctx context.Context, m member, first bool) []key {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	get := p.Credentials.Get
	if first {
		get = p.Credentials.Renew
	}
	var keys []key
	if now, err := get(ctx, m.credential); err == nil {
		keys = append(keys, key{now, credentials.Current})
	}
	if old, ok := p.Credentials.Previous(ctx, m.credential); ok {
		keys = append(keys, key{old, credentials.Previous})
	}
	return keys
}

// differs tells whether the outcome could be another one with k than it was
// with old. A server that rejects knows the shared secret; one that is silent,
// or answers with another, did not get as far as the password.
func (k key) differs(old key, o health.Outcome) bool {
	if o == health.Reject && (k.Username != old.Username || !bytes.Equal(k.Password, old.Password)) {
		return true
	}
	return !bytes.Equal(k.SharedSecret, old.SharedSecret)
}

// mayBeCredentials tells whether wrong credentials would look like the result.
func (m member) mayBeCredentials(f finding) bool {
	switch f.Outcome {
	case health.Reject, health.Timeout, health.BadAuthenticator:
		return m.check.Criteria.Evidence(f.Outcome) == health.Failure
	}
	return false
}

// transact makes one probe with the given credentials.
func (p *Prober) transact(ctx context.Context, m member, k key, attempts int) finding {
	if err := p.sockets.Acquire(ctx, 1); err != nil {
		return ownFault("waiting for a free socket: " + err.Error())
	}
	defer p.sockets.Release(1)
	return finding{stage: k.stage, Result: p.Transactor.Probe(ctx, p.request(m, k.Credentials, attempts))}
}

// request is the probe of a member with the given credentials.
func (p *Prober) request(m member, credentials probe.Credentials, attempts int) probe.Request {
	row, _ := p.row(m.key)
	c := m.check
	return probe.Request{
		Server:                   m.address(),
		Method:                   c.Method,
		AttemptTimeout:           c.AttemptTimeout,
		Attempts:                 attempts,
		MessageAuthenticator:     c.MessageAuthenticator,
		MessageAuthenticatorSeen: row.MessageAuthenticatorSeen && row.Address == m.address().String(),
		NASIdentifier:            c.NASIdentifier,
		Attributes:               c.Attributes,
		Certificate:              probe.CertificatePolicy{Roots: p.rootsOf(c.CABundle), Required: c.RequireValidCert},
		Credentials:              credentials,
	}
}

// UserRequests returns a request for each of a group's servers that logs the
// test user in, by the first of its checks that does so.
func (p *Prober) UserRequests(ctx context.Context, group fleet.Group) ([]probe.Request, error) {
	p.prepare()
	requests := make([]probe.Request, len(group.Servers))
	for i, s := range group.Servers {
		check, ok := s.UserCheck()
		if !ok {
			return nil, fmt.Errorf("server %s of group %s has no check that authenticates a user", s.Name, group.Name)
		}
		m := member{key: rowKey{group.Name, check.Row}, server: s, check: check, credential: p.Fleet.Credentials[s.Credential]}
		credentials, err := p.Credentials.Get(ctx, m.credential)
		if err != nil {
			return nil, err
		}
		requests[i] = p.request(m, credentials, 1)
	}
	return requests, nil
}

// rootsOf returns the CAs of a bundle, nil if it is empty.
func (p *Prober) rootsOf(bundle string) *x509.CertPool {
	if bundle == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.roots[bundle] == nil {
		p.roots[bundle] = x509.NewCertPool()
		p.roots[bundle].AppendCertsFromPEM([]byte(bundle)) // package fleet has checked it
	}
	return p.roots[bundle]
}
