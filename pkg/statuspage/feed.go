package statuspage

import (
	"context"
	"fmt"
	"sync"
	"time"

	"radwitness/pkg/operator"
)

// pollTimeout is for one poll. AWS answers in a fraction of it, or not at all.
const pollTimeout = 15 * time.Second

// update is the outcome of a poll.
type update struct {
	id      uint64           // grows; the first is 1
	report  *operator.Report // the newest there is, also after a poll that failed; nil if there never was one
	trouble *trouble         // nil if the poll went well
}

// trouble says why there is no newer report.
type trouble struct {
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// feed polls the source once for all viewers together, and only while there are any.
type feed struct {
	source   Source
	explain  func(error) string
	interval time.Duration
	polling  chan struct{} // holds one token: who has it may poll

	mu      sync.Mutex
	viewers int
	stop    context.CancelFunc // of the polls, while there are viewers
	polled  time.Time          // when the newest poll began
	newest  update
	changed chan struct{} // closed when newest is replaced
}

func newFeed(cfg Config) *feed {
	f := &feed{
		source: cfg.Source, explain: cfg.Explain, interval: cfg.Interval,
		polling: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	f.polling <- struct{}{}
	return f
}

// join makes a viewer of the caller until it calls leave.
func (f *feed) join() (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.viewers++; f.viewers == 1 {
		var ctx context.Context
		ctx, f.stop = context.WithCancel(context.Background())
		go f.run(ctx)
	}
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.viewers--; f.viewers == 0 {
			f.stop()
		}
	})
}

// after waits for an update that is newer than the one with the given id. One
// that is older than an interval, left by viewers who have gone, is not news; one
// that ends meanwhile is, however long it took.
func (f *feed) after(ctx context.Context, id uint64) (update, error) {
	for ended := false; ; ended = true {
		f.mu.Lock()
		u, changed, fresh := f.newest, f.changed, time.Since(f.polled) <= f.interval
		f.mu.Unlock()
		if u.id > id && (fresh || id > 0 || ended) {
			return u, nil
		}
		select {
		case <-ctx.Done():
			return update{}, ctx.Err()
		case <-changed:
		}
	}
}

// run polls until the context ends. A viewer that comes and goes makes no more
// polls than one who stays.
func (f *feed) run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-f.polling: // those before may have one under way
	}
	defer func() { f.polling <- struct{}{} }()
	for {
		f.mu.Lock()
		wait := time.Until(f.polled.Add(f.interval))
		f.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		if ctx.Err() != nil { // also where a slow poll left nothing to wait for
			return
		}
		f.poll()
	}
}

// poll is not cut short when the last viewer leaves: one who loads the page again
// is back before it ends.
func (f *feed) poll() {
	now := time.Now()
	f.mu.Lock()
	f.polled = now
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), pollTimeout)
	defer cancel()
	report, err := f.source.Report(ctx, "")
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no answer within %v: %w", pollTimeout, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	u := update{id: f.newest.id + 1, report: &report}
	if err != nil {
		u.report = f.newest.report
		u.trouble = &trouble{Message: f.explain(err), Since: now}
		if f.newest.trouble != nil {
			u.trouble.Since = f.newest.trouble.Since
		}
	}
	f.newest = u
	close(f.changed)
	f.changed = make(chan struct{})
}
