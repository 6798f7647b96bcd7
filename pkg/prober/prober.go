// Package prober is the prober function: it runs the rounds of a minute,
// probes every due server of a round at the same time, and records what came of
// it. It decides nothing about membership.
package prober

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
	"radwitness/pkg/store"
	"radwitness/pkg/telemetry"
)

const (
	maxSockets  = 512 // Lambda gives a function 1,024 descriptors
	maxWrites   = 64  // DynamoDB calls at once, so that connections stay few
	callTimeout = 5 * time.Second
	// maxGap is how old a failure may be and still count with the next one.
	maxGap = 5 * time.Minute
	// maxSkew is how far another prober's clock may be ahead of this one's.
	maxSkew = 5 * time.Minute
)

// Transactor makes one RADIUS transaction.
type Transactor interface {
	Probe(context.Context, probe.Request) probe.Result
}

// Credentials gives the secrets of a source.
type Credentials interface {
	Get(context.Context, fleet.Credential) (probe.Credentials, error)
	Renew(context.Context, fleet.Credential) (probe.Credentials, error)
	Previous(context.Context, fleet.Credential) (probe.Credentials, bool)
}

// Store is table probes.
type Store interface {
	Record(context.Context, store.ProbeResult) (store.ProbeRow, error)
	Group(context.Context, string) (map[string]store.ProbeRow, error)
}

// Prober probes the servers of a fleet. It may be used by one invocation at a
// time, as Lambda does; what it remembers between them only saves work.
type Prober struct {
	Fleet       *fleet.Fleet
	Transactor  Transactor
	Credentials Credentials
	Store       Store // nil if nothing is read or recorded
	Log         *slog.Logger
	Metrics     *telemetry.Metrics

	setup   sync.Once
	sockets *semaphore.Weighted
	writes  *semaphore.Weighted

	mu    sync.Mutex
	rows  map[rowKey]store.ProbeRow // newest known row of each check
	roots map[string]*x509.CertPool // by the PEM that they come from
}

// rowKey identifies a row of table probes: a check of a server in the fleet.
type rowKey struct{ group, row string }

func (k rowKey) String() string { return k.group + "/" + k.row }

// member is a check of a server, with the settings that its probes need.
type member struct {
	key        rowKey
	server     fleet.Server
	check      fleet.Probe
	credential fleet.Credential
	threshold  int
	metrics    bool // of this server alone, besides the group's
}

// address is where the server is probed.
func (m member) address() netip.AddrPort {
	return netip.AddrPortFrom(m.server.Address, m.check.Port)
}

func (p *Prober) prepare() {
	p.setup.Do(func() {
		p.sockets = semaphore.NewWeighted(maxSockets)
		p.writes = semaphore.NewWeighted(maxWrites)
		p.rows = map[rowKey]store.ProbeRow{}
		p.roots = map[string]*x509.CertPool{}
	})
}

// members lists the checks of the servers that the filter lets through, in fleet
// order.
func (p *Prober) members(keep func(group, server string) bool) []member {
	var list []member
	for _, g := range p.Fleet.Groups {
		for _, s := range g.Servers {
			if !keep(g.Name, s.Name) {
				continue
			}
			for _, c := range s.Checks {
				list = append(list, member{
					rowKey{g.Name, c.Row}, s, c, p.Fleet.Credentials[s.Credential], g.Health.FailureThreshold, g.ServerMetrics,
				})
			}
		}
	}
	return list
}

// load reads the rows of the members' groups, for what a cold start cannot
// know: running streaks, and whether a Message-Authenticator was ever seen.
// A failure is logged and costs only that knowledge.
func (p *Prober) load(ctx context.Context, members []member) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	groups := map[string]bool{}
	for _, m := range members {
		groups[m.key.group] = true
	}
	var wg sync.WaitGroup
	for group := range groups {
		wg.Go(func() {
			if p.writes.Acquire(ctx, 1) != nil {
				return
			}
			defer p.writes.Release(1)
			rows, err := p.Store.Group(ctx, group)
			if err != nil {
				p.Log.Error("rows not read", "group", group, "error", err)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			for server, row := range rows {
				p.rows[rowKey{group, server}] = row
			}
		})
	}
	wg.Wait()
}

func (p *Prober) row(key rowKey) (store.ProbeRow, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	row, ok := p.rows[key]
	return row, ok
}

// writing is the context of a write. It has a time of its own, since the
// deadline that ended a probe must not lose its result, and leaves the function
// a moment to say that a write failed.
func writing(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := time.Now().Add(callTimeout)
	if probes, ok := ctx.Deadline(); ok {
		if end := probes.Add(reserve - lastWords); end.Before(limit) {
			limit = end
		}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), limit)
}

// record writes a result and remembers the row.
func (p *Prober) record(ctx context.Context, m member, round time.Time, r finding) (store.ProbeRow, error) {
	ctx, cancel := writing(ctx)
	defer cancel()
	if err := p.writes.Acquire(ctx, 1); err != nil {
		return store.ProbeRow{}, fmt.Errorf("recording probe of %s: waiting for a free connection: %w", m.key, err)
	}
	defer p.writes.Release(1)
	before, known := p.row(m.key)
	address := m.address().String()
	recent := before.RecentLatencyMS
	if before.Address != address {
		recent = ""
	}
	row, err := p.Store.Record(ctx, store.ProbeResult{
		Group: m.key.group, Server: m.key.row,
		Address:  address,
		Moved:    known && before.Address != address,
		Gap:      before.ConsecutiveFailures > 0 && round.Sub(before.LastFailure) > maxGap,
		Method:   string(m.check.Method),
		Round:    round,
		Outcome:  r.Outcome,
		Evidence: m.check.Criteria.Evidence(r.Outcome),
		Reason:   r.Reason, Latency: r.Latency, Recent: recent, Transactions: r.Transactions, Transmissions: r.Transmissions,
		ReplyMessage: r.ReplyMessage, MessageAuthenticator: r.MessageAuthenticator,
		CredentialStage: r.worked(m),
		Certificate: store.Certificate{
			Subject: r.Certificate.Subject, Issuer: r.Certificate.Issuer, NotAfter: r.Certificate.NotAfter, Chain: r.Certificate.Chain,
		},
	})
	if errors.Is(err, store.ErrNotNewer) && before.Round.After(time.Now().Add(maxSkew)) {
		return store.ProbeRow{}, fmt.Errorf("recording probe of %s: the row's round %s is in the future, so nothing newer is taken: delete the row",
			m.key, before.Round.Format(time.RFC3339))
	}
	if err != nil {
		return store.ProbeRow{}, err
	}
	p.mu.Lock()
	p.rows[m.key] = row
	p.mu.Unlock()
	p.logOutcome(m, before, row, r.Reason)
	return row, nil
}

// logOutcome writes a line for what a decision may rest on: an outcome that is
// another one than before, and each failure until the server is down. That all
// is as it was is in the line of the minute.
func (p *Prober) logOutcome(m member, before, row store.ProbeRow, reason string) {
	switch failures := row.ConsecutiveFailures; {
	case before.Outcome != "" && before.Outcome != row.Outcome:
		p.Log.Info("outcome changed", "group", m.key.group, "server", m.key.row, "round", row.Round,
			"from", before.Outcome, "to", row.Outcome, "reason", reason, "consecutive_failures", failures)
	case failures > 0 && failures <= m.threshold && m.check.Criteria.Evidence(row.Outcome) == health.Failure:
		p.Log.Info("probe failed", "group", m.key.group, "server", m.key.row, "round", row.Round,
			"outcome", row.Outcome, "reason", reason, "consecutive_failures", failures, "threshold", m.threshold)
	}
}

// recorded reports whether an error of record means that the row is up to
// date all the same, by another invocation's hand.
func recorded(err error) bool { return err == nil || errors.Is(err, store.ErrNotNewer) }
