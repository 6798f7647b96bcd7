package estate

import (
	"context"
	"encoding/json"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"radwitness/pkg/health"
	"radwitness/pkg/store"
	"radwitness/pkg/store/storetest"
)

// Round records one probe of each server for which outcome names one, as the
// prober does, and returns the event of the stream's records. Servers are
// numbered within their group.
func (e *Estate) Round(ctx context.Context, outcome func(group, server int) health.Outcome) (json.RawMessage, error) {
	round := time.Now().UTC().Truncate(time.Millisecond)
	type probed struct{ before, after store.ProbeRow }
	var all []*probed
	var writes errgroup.Group
	writes.SetLimit(16)
	for i, g := range e.Fleet.Groups {
		for j, s := range g.Servers {
			o := outcome(i, j)
			if o == "" {
				continue
			}
			p := &probed{before: e.rows[g.Name+"/"+s.Name]}
			all = append(all, p)
			result := store.ProbeResult{
				Group: g.Name, Server: s.Checks[0].Row, Address: netip.AddrPortFrom(s.Address, Port).String(),
				Method: "pap", Round: round, Outcome: o, Evidence: health.Success, Latency: 3217 * time.Microsecond, Transactions: 1, Transmissions: 1,
				ReplyMessage: "Welcome", MessageAuthenticator: true, CredentialStage: "AWSCURRENT",
			}
			if o == health.Reject {
				result.Evidence, result.Reason = health.Failure, "the directory is gone"
			}
			writes.Go(func() (err error) {
				p.after, err = e.probes.Record(ctx, result)
				return err
			})
		}
	}
	if err := writes.Wait(); err != nil {
		return nil, err
	}
	event := struct{ Records []json.RawMessage }{}
	for _, p := range all {
		e.rows[p.after.Group+"/"+p.after.Server] = p.after
		e.records++
		record, err := storetest.Record(e.records, p.before, p.after)
		if err != nil {
			return nil, err
		}
		event.Records = append(event.Records, record)
	}
	return json.Marshal(event)
}

// Recorded is how many probes Round has recorded.
func (e *Estate) Recorded() int { return e.records }

// Rows reads the newest row of every server.
func (e *Estate) Rows(ctx context.Context) ([]store.ProbeRow, error) {
	var list []store.ProbeRow
	for _, g := range e.Fleet.Groups {
		rows, err := e.probes.Group(ctx, g.Name)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			list = append(list, row)
		}
	}
	return list, nil
}
