//go:build !lambda.norpc

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"radwitness/pkg/deployed"
	"radwitness/pkg/nas/replay"
	"radwitness/pkg/store"
)

// replay lives through the recorded history.
func (t *fleetTest) replay(ctx context.Context, source deployed.Source) error {
	for _, flag := range []string{"outstanding", "max-rejects"} {
		if t.cmd.IsSet(flag) {
			return fmt.Errorf("-%s is not for -record", flag)
		}
	}
	from, to, err := t.period(time.Now().UTC())
	if err != nil {
		return err
	}
	system, err := source.Connect(ctx)
	if err != nil {
		return err
	}
	record, err := t.read(ctx, system)
	if err != nil {
		return system.Explain(ctx, err)
	}
	past, err := replay.New(record, from, to)
	if err != nil {
		return err
	}
	test := replay.Test{Settings: t.settings, Servers: t.order, Logins: t.cmd.Int("n"), Users: t.cmd.Int("users"), Trace: t.cmd.Bool("trace")}
	if test.Logins == 0 {
		test.Logins = max(1, int(past.To.Sub(past.From).Seconds()*cmp.Or(t.cmd.Float("rate"), 1)))
	} else if t.cmd.IsSet("rate") {
		return errors.New("-n and -rate exclude each other with -record, as the time is given")
	}
	if test.Logins > maxReplayed {
		return fmt.Errorf("%d logins are more than %d: give a lower -rate, or a shorter time", test.Logins, maxReplayed)
	}
	t.report.From, t.report.To = past.From, past.To
	t.report.Notes = slices.Concat(t.report.Notes, past.Notes, replay.Notes())
	t.report.Views, t.report.Outages, err = past.Run(test)
	return err
}

// period is the time to live through.
func (t *fleetTest) period(now time.Time) (from, to time.Time, err error) {
	from, to = t.cmd.Timestamp("from"), cmp.Or(t.cmd.Timestamp("to"), now)
	switch since := t.cmd.Duration("since"); {
	case since < 0:
		return from, to, errors.New("-since must not be negative")
	case since > 0 && (t.cmd.IsSet("from") || t.cmd.IsSet("to")):
		return from, to, errors.New("-since excludes -from and -to")
	case from.IsZero():
		from = to.Add(-cmp.Or(since, 24*time.Hour))
	}
	if !from.Before(to) {
		return from, to, errors.New("-from must be before -to")
	}
	if to.After(now) {
		return from, to, errors.New("-to is in the future")
	}
	return from, to, nil
}

// read reads all that is recorded of the group: what was true at the beginning
// of a time may have been recorded long before.
func (t *fleetTest) read(ctx context.Context, system *deployed.System) (replay.Record, error) {
	var record replay.Record
	record.Group, _ = system.Fleet.Group(t.group.Name) // with the functions' own overrides
	t.report.FleetVersion = system.Fleet.Version
	db := dynamodb.NewFromConfig(system.AWS)
	tables := &store.Health{DynamoDB: db, Table: system.HealthTable}
	var err error
	record.History, err = tables.History(ctx, t.group.Name, time.Time{})
	switch {
	case err != nil && len(record.History.Transitions)+len(record.History.Changes) == 0:
		return record, err
	case err != nil: // some rows only
		t.report.Notes = append(t.report.Notes, err.Error())
	}
	if record.Health, err = tables.Group(ctx, t.group.Name); err != nil {
		return record, err
	}
	record.Probes, err = (&store.Probes{DynamoDB: db, Table: system.ProbesTable}).Group(ctx, t.group.Name)
	return record, err
}
