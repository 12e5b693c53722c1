package disk

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Tier is an open directory. It is safe for concurrent use, and must not be copied.
//
// One mutex guards what is known of slots, and is not held while the disk is at work. A slot is written to by the one call
// that has made it busy; it is read without being held, and what was read is used if the slot has the same generation after.
type Tier struct {
	o      Options
	log    *slog.Logger
	codec  codec
	stride int64
	limit  int // slots

	lock, table, data file
	room              sync.Pool // *[]byte of a payload and a tag, where payloads are encrypted

	mu      sync.Mutex
	open    bool // false: of the zero value, too
	gone    bool
	calls   sync.WaitGroup
	index   index
	writing map[tier.Key]chan struct{} // closed when it is done
	seen    seen
	wear    bucket
	reads   breaker
	writes  breaker
	cramped bool      // growing failed, and has not succeeded since
	growAt  time.Time // before that, growing is not tried again
	uncut   bool      // the files are longer than the slots, or may be after a crash
	dirty   int64     // bytes written and not synced
	misses  uint64    // syncs that failed, and those that Sync has returned
	told    uint64
	missed  error  // of the last one
	marks   uint64 // overwritten entries of blocks, and those that are synced
	synced  uint64
	lost    error         // why a sync may not bring the table's writes to the disk; nil: it does
	anew    chan struct{} // closed when the table is rewritten; nil: it is not being rewritten
	stats   tier.Stats

	durable    sync.Mutex // one Put at a time, where each is synced
	syncing    sync.Mutex // one sync of both files at a time
	tabling    sync.Mutex // one sync of the table at a time: its failure is known before the next one ends
	sizing     sync.Mutex // one change of the files' size at a time
	forgetting sync.Mutex // one call that forgets at a time: another one would not see what this one has taken out but not synced

	used, full, done, stopped chan struct{} // of tend
}

var _ tier.Tier = (*Tier)(nil)

// Info says what the tier is.
func (t *Tier) Info() tier.Info {
	return tier.Info{Name: name, Medium: tier.Disk, Outlives: true, Largest: t.codec.payload}
}

// begin is called at the begin of each call, and end at its end.
func (t *Tier) begin(op string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open {
		return tier.ErrClosed{Name: name}
	}
	if t.gone {
		t.stats.Failures++
		return tier.ErrFailed{Name: name, Op: op, Err: ErrGone{t.o.Dir}}
	}
	t.calls.Add(1)
	return nil
}

func (t *Tier) end() {
	signal(t.used)
	t.calls.Done()
}

// failed is what a call returns for an error, and counts it. A context that ended is not the tier's failure.
func (t *Tier) failed(op string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	t.mu.Lock()
	t.stats.Failures++
	if t.gone {
		err = ErrGone{t.o.Dir}
	}
	t.mu.Unlock()
	return tier.ErrFailed{Name: name, Op: op, Err: err}
}

// signal wakes who waits, now or later, once.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Stats returns what the tier has and has done.
func (t *Tier) Stats() tier.Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Blocks, s.Bytes, s.Capacity = int64(len(t.index.byKey)), t.index.bytes, int64(t.limit)*t.codec.payload
	s.QuarantinedCapacity = t.index.bad * t.codec.payload
	return s
}

// writeEntry writes the entry of a slot to the table.
func (t *Tier) writeEntry(i int32, e *entry) error {
	var b [entryBytes]byte
	if err := t.codec.writeEntry(b[:], int(i), e); err != nil {
		return err
	}
	_, err := t.table.WriteAt(b[:], page+int64(i)*entryBytes)
	return err
}

// overwrite replaces a block's entry by that of a free slot. It is counted when it has been written: a sync that begins
// before that need not bring it to the disk.
func (t *Tier) overwrite(i int32, generation uint64) error {
	if err := t.writeEntry(i, &entry{generation: generation}); err != nil {
		return err
	}
	t.mu.Lock()
	t.marks++
	t.mu.Unlock()
	return nil
}
