package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/tidwall/gjson"

	"radwitness/pkg/fleet"
	"radwitness/pkg/health"
	"radwitness/pkg/probe"
	"radwitness/pkg/prober"
	"radwitness/pkg/reconciler"
	"radwitness/pkg/store"
)

const probesTable, healthTable = "probes", "health"

// realWorld is a history in which the prober is the real one, both functions
// reach their tables through the real encoding, and time is a bubble's. The
// prober's goroutines run while the world sleeps.
type realWorld struct {
	*world
	mu      sync.Mutex // held by the world but while it sleeps
	db      *dynamo
	probers map[string]*prober.Prober // warm ones, by version of the fleet
	running sync.WaitGroup
}

// TestRealProber: what holds for the model of the prober holds for the prober.
func TestRealProber(t *testing.T) {
	histories := 60
	if n, err := strconv.Atoi(os.Getenv("REAL_HISTORIES")); err == nil {
		histories = n
	}
	if testing.Short() {
		histories = 10
	}
	total := Tally{}
	probes := 0
	for seed := range uint64(histories) {
		synctest.Test(t, func(t *testing.T) {
			w := newRealWorld(seed)
			report, err := w.play()
			w.mu.Unlock()
			w.running.Wait()
			total.Add(report.Faults)
			probes += report.Probes
			if err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("%d histories, %d probes; faults injected:\n%v", histories, probes, total)
}

func newRealWorld(seed uint64) *realWorld {
	w := &realWorld{world: newWorld(seed, time.Now(), nil), db: newDynamo(), probers: map[string]*prober.Prober{}}
	delete(w.weather, ClockStep) // a bubble has one clock
	w.mu.Lock()
	w.sleep = func(d time.Duration) {
		w.mu.Unlock()
		time.Sleep(d)
		w.mu.Lock()
	}
	w.prober.invoke = w.probeForReal
	w.store = storage{images: map[string]json.RawMessage{}, mirror: w.mirror, setDrain: w.storeDrain, open: func(a *access) (reconciler.Probes, reconciler.Health) {
		db := reconcilerDB{w.db, a}
		return &store.Probes{DynamoDB: db, Table: probesTable}, &store.Health{DynamoDB: db, Table: healthTable}
	}}
	return w
}

// mirror reads the real rows of a group into the tables that are judged.
func (w *realWorld) mirror(group string) {
	rows, err := (&store.Probes{DynamoDB: w.db, Table: probesTable}).Group(context.Background(), group)
	if err != nil {
		w.violate("encoding", "%v", err)
	}
	remembered, err := (&store.Health{DynamoDB: w.db, Table: healthTable}).Group(context.Background(), group)
	if err != nil {
		w.violate("encoding", "%v", err)
	}
	w.tables.mu.Lock()
	defer w.tables.mu.Unlock()
	w.tables.rows[group] = rows
	*w.tables.of(group) = remembered
	for server, s := range remembered.States {
		if s.Status == health.Down {
			w.tables.downAt[machineKey{serverKey{group, server}, remembered.Addresses[server]}] = s.Since
		}
	}
}

func (w *realWorld) storeDrain(group, server string, d *store.Drain) {
	until := w.now.Add(-time.Hour)
	if d != nil {
		until = d.Until
	}
	_, err := w.db.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: new(healthTable), Item: item{
		"group": &types.AttributeValueMemberS{Value: group}, "item": &types.AttributeValueMemberS{Value: "drain#" + server},
		"until": &types.AttributeValueMemberS{Value: until.UTC().Format(time.RFC3339Nano)}, "reason": &types.AttributeValueMemberS{Value: "patching"},
	}})
	if err != nil {
		w.violate("encoding", "%v", err)
	}
}

// reconcilerDB is DynamoDB as the reconciler reaches it.
type reconcilerDB struct {
	*dynamo
	access *access
}

func (d reconcilerDB) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	group := text(in.ExpressionAttributeValues[":group"])
	if *in.TableName == probesTable {
		if d.access.blind[group] {
			return nil, errThrottled
		}
	} else if err := d.access.lucks[group].call(ReadFailed); err != nil {
		return nil, err
	}
	return d.dynamo.Query(ctx, in)
}

func (d reconcilerDB) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	l := d.access.lucks[text(in.Item["group"])]
	if err := l.call(StateThrottled); err != nil {
		return nil, err
	}
	d.access.wrote()
	out, err := d.dynamo.PutItem(ctx, in)
	if err == nil && l.strikes(StateAnswerLost) {
		return nil, errLost
	}
	return out, err
}

// proberDB is DynamoDB as an invocation of the prober reaches it, with the
// stream behind it.
type proberDB struct {
	*realWorld
}

func (d proberDB) PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return nil, errors.New("the prober puts no items")
}

func (d proberDB) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return d.db.Query(ctx, in)
}

func (d proberDB) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if killed, ok := ctx.Value(killedKey{}).(*bool); ok && *killed {
		return nil, errKilled
	}
	if d.strikes(RecordThrottled) {
		return nil, errThrottled
	}
	out, err := d.db.UpdateItem(ctx, in)
	if err != nil {
		return nil, err
	}
	d.report.Probes++
	image := streamRecord(strconv.Itoa(d.records+1), out.Attributes)
	row, err := store.ProbeRowFromStream(gjson.GetBytes(image, "dynamodb.NewImage").Raw)
	if err != nil {
		d.violate("encoding", "%v", err)
		return nil, err
	}
	if d.tables.rows[row.Group] == nil {
		d.tables.rows[row.Group] = map[string]store.ProbeRow{}
	}
	d.tables.rows[row.Group][row.Server] = row
	d.tables.witness(serverKey{row.Group, row.Server}, row)
	d.store.images[strconv.Itoa(d.records+1)] = image
	d.shardOf(row.Group).add(row)
	if d.strikes(RecordAnswerLost) {
		return nil, &types.ConditionalCheckFailedException{} // of the SDK's second attempt
	}
	return out, nil
}

// killedKey carries whether an invocation has been killed.
type killedKey struct{}

// probeForReal is one invocation of the real prober.
func (w *realWorld) probeForReal(scheduled time.Time) {
	f := w.world.running()
	p := w.probers[f.Version]
	if p == nil {
		p = &prober.Prober{Fleet: f, Transactor: transactor{w}, Credentials: secrets{}, Store: &store.Probes{DynamoDB: proberDB{w}, Table: probesTable}, Log: slog.New(slog.DiscardHandler)}
	}
	w.probers[f.Version] = nil // one invocation at a time has a warm one
	killed := new(bool)
	ctx, cancel := context.WithDeadline(context.WithValue(context.Background(), killedKey{}, killed), time.Now().Add(75*time.Second))
	if w.strikes(ProberKilled) {
		w.after(w.between(0, time.Minute), func() { *killed = true; cancel() })
	}
	event := json.RawMessage(`{"detail-type":"Scheduled Event","time":"` + scheduled.UTC().Format(time.RFC3339) + `"}`)
	w.running.Go(func() {
		defer cancel()
		_, err := p.Handle(ctx, event)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil && !*killed {
			w.probers[f.Version] = p
		}
	})
}

// transactor is the network and the RADIUS servers.
type transactor struct{ *realWorld }

func (t transactor) Probe(ctx context.Context, r probe.Request) probe.Result {
	t.mu.Lock()
	i := &invocation{world: t.world, blind: t.strikes(ProberBlind)}
	m := member{Server: fleet.Server{Address: r.Server.Addr()}, Probe: fleet.Probe{AttemptTimeout: r.AttemptTimeout, Attempts: r.Attempts}}
	outcome, took := i.transact(m)
	t.mu.Unlock()
	select {
	case <-time.After(took):
		return probe.Result{Outcome: outcome, Transmissions: 1, Duration: took}
	case <-ctx.Done():
		return probe.Result{Outcome: health.ProberError, Reason: ctx.Err().Error()}
	}
}

// secrets are always there.
type secrets struct{}

func (secrets) Get(context.Context, fleet.Credential) (probe.Credentials, error) {
	return probe.Credentials{}, nil
}

// Previous has none: a second transaction would only take longer.
func (secrets) Previous(context.Context, fleet.Credential) (probe.Credentials, bool) {
	return probe.Credentials{}, false
}

// Renew finds nothing newer.
func (s secrets) Renew(ctx context.Context, c fleet.Credential) (probe.Credentials, error) {
	return s.Get(ctx, c)
}
