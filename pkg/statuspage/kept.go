package statuspage

import (
	"context"
	"sync"
	"time"
)

// mostKept bounds what requests for groups that do not exist could leave behind.
const mostKept = 500

// kept keeps what has been read for a while, for all viewers together.
type kept[T any] struct {
	maxAge time.Duration

	mu      sync.Mutex
	entries map[string]*entry[T]
}

// entry is locked while it is read, so that others wait for that.
type entry[T any] struct {
	mu    sync.Mutex
	at    time.Time // zero if nothing has been read yet
	value T
	err   error
}

// get returns what was read under a key, or why nothing was, unless it is older
// than maxAge; then it is read again.
func (k *kept[T]) get(ctx context.Context, key string, read func(context.Context) (T, error)) (T, error) {
	e := k.entry(key)
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.at) <= k.maxAge {
		return e.value, e.err
	}
	limited, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	value, err := read(limited)
	if ctx.Err() != nil {
		return value, err // this viewer has gone; the next shall not pay for it
	}
	e.at, e.value, e.err = time.Now(), value, err
	return value, err
}

func (k *kept[T]) entry(key string) *entry[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.entries[key] == nil {
		if k.entries == nil || len(k.entries) >= mostKept {
			k.entries = map[string]*entry[T]{}
		}
		k.entries[key] = &entry[T]{}
	}
	return k.entries[key]
}
