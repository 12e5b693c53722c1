package tier_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/tiertest"
)

func TestMain(m *testing.M) {
	testsize.Histories(100)
	os.Exit(m.Run())
}

const size = 100 // bytes of a payload

var ctx = context.Background()

// faulty is a tier whose calls go through a hook first, which may fail, panic and block, and which may lie about counts.
type faulty struct {
	tier.Tier
	name string

	mu    sync.Mutex
	hook  func(ctx context.Context, op string) error
	count func(op string, n int) int
	lie   func(blocks []tier.Block, n int) int // of what Get returns
	calls []string

	forgetful bool // of calls, where there are many
	greedy    bool // keeps the lists of Put and Delete, and clears them
}

func (f *faulty) Info() tier.Info {
	info := f.Tier.Info()
	info.Name = f.name
	return info
}

// set replaces the hook.
func (f *faulty) set(hook func(ctx context.Context, op string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

func (f *faulty) begin(ctx context.Context, op string) error {
	f.mu.Lock()
	hook := f.hook
	if !f.forgetful {
		f.calls = append(f.calls, op)
	}
	f.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx, op)
}

func (f *faulty) counted(op string, n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		return n
	}
	return f.count(op, n)
}

func (f *faulty) Has(ctx context.Context, keys []tier.Key) (int, error) {
	if err := f.begin(ctx, "has"); err != nil {
		return 0, err
	}
	n, err := f.Tier.Has(ctx, keys)
	return f.counted("has", n), err
}

func (f *faulty) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	if err := f.begin(ctx, "get"); err != nil {
		return 0, err
	}
	n, err := f.Tier.Get(ctx, blocks)
	f.mu.Lock()
	lie := f.lie
	f.mu.Unlock()
	if lie != nil {
		n = lie(blocks, n)
	}
	return f.counted("get", n), err
}

func (f *faulty) Put(ctx context.Context, blocks []tier.Block) error {
	if err := f.begin(ctx, "put"); err != nil {
		return err
	}
	err := f.Tier.Put(ctx, blocks)
	if f.greedy {
		clear(blocks)
	}
	return err
}

func (f *faulty) Clear(ctx context.Context, root tier.Key) error {
	if err := f.begin(ctx, "clear"); err != nil {
		return err
	}
	return f.Tier.Clear(ctx, root)
}

func (f *faulty) Delete(ctx context.Context, keys []tier.Key) error {
	if err := f.begin(ctx, "delete"); err != nil {
		return err
	}
	err := f.Tier.Delete(ctx, keys)
	if f.greedy {
		clear(keys)
	}
	return err
}

// rig is a mover over two tiers in simulated time.
type rig struct {
	*tier.Mover
	t         *testing.T
	fast, low *faulty
	lent      atomic.Int64 // bytes of jobs that were not released
}

// simulated runs a test in simulated time, and looks for what it left: the bubble fails when a goroutine goes on.
func simulated(t *testing.T, o tier.MoverOptions, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, o)
		test(r)
		r.finish()
	})
}

func newRig(t *testing.T, o tier.MoverOptions) *rig {
	r := &rig{t: t}
	for _, f := range []**faulty{&r.fast, &r.low} {
		in, err := memory.Open(memory.Options{Bytes: 1 << 20})
		require.NoError(t, err)
		*f = &faulty{Tier: in}
	}
	r.fast.name, r.low.name = "fast", "low"
	var err error
	r.Mover, err = tier.NewMover([]tier.Tier{r.fast, r.low}, o)
	require.NoError(t, err)
	return r
}

// finish closes all; nothing is lent any more.
func (r *rig) finish() {
	require.NoError(r.t, r.Close())
	s := r.Stats()
	require.Zero(r.t, s.InFlight)
	require.Zero(r.t, s.Jobs)
	require.Zero(r.t, r.lent.Load(), "bytes of jobs that were not released")
	for _, s := range s.Tiers {
		require.Zero(r.t, s.Hanging)
	}
	require.ErrorAs(r.t, r.Load(ctx, tier.Job{}), &tier.ErrClosed{})
	_, err := r.Has(ctx, nil)
	require.ErrorAs(r.t, err, &tier.ErrClosed{})
	require.ErrorAs(r.t, r.Clear(ctx, tier.Key{}), &tier.ErrClosed{})
	require.NoError(r.t, r.Close())
	require.NoError(r.t, r.fast.Close())
	require.NoError(r.t, r.low.Close())
}

// move is a job that was submitted.
type move struct {
	t        *testing.T
	blocks   []tier.Block
	load     bool
	done     chan tier.Result
	released chan struct{}
	ended    atomic.Int32
}

// try submits a job of a sequence, with fields that more sets.
func (r *rig) try(ctx context.Context, load bool, sequence uint64, blocks []tier.Block, wait bool, more ...func(*tier.Job)) (*move, error) {
	m := &move{t: r.t, load: load, done: make(chan tier.Result, 1), released: make(chan struct{})}
	m.blocks = append(m.blocks, blocks...)
	if load {
		for i := range m.blocks {
			m.blocks[i].Bytes = make([]byte, len(blocks[i].Bytes))
		}
	}
	bytes := int64(0)
	for _, b := range m.blocks {
		bytes += int64(len(b.Bytes))
	}
	j := tier.Job{Sequence: sequence, Blocks: m.blocks, Wait: wait,
		Done: func(res tier.Result) {
			if m.ended.Add(1) != 1 {
				panic("Done twice, or after Release")
			}
			m.done <- res
		},
		Release: func() {
			if m.ended.Add(1) != 2 {
				panic("Release twice, or before Done")
			}
			r.lent.Add(-bytes)
			close(m.released)
		}}
	for _, say := range more {
		say(&j)
	}
	r.lent.Add(bytes)
	do := r.Store
	if load {
		do = r.Load
	}
	err := do(ctx, j)
	if err != nil {
		r.lent.Add(-bytes)
		return nil, err
	}
	return m, nil
}

func (r *rig) submit(ctx context.Context, load bool, sequence uint64, blocks []tier.Block) *move {
	r.t.Helper()
	m, err := r.try(ctx, load, sequence, blocks, false)
	require.NoError(r.t, err)
	return m
}

// submitJob is submit of a job without a sequence, and with fields that say sets.
func (r *rig) submitJob(load bool, blocks []tier.Block, say func(*tier.Job)) *move {
	r.t.Helper()
	m, err := r.try(ctx, load, 0, blocks, false, say)
	require.NoError(r.t, err)
	return m
}

// result waits for that of a job, and compares what a load read with what there is under its keys.
func (m *move) result() tier.Result {
	res := <-m.done
	if m.load {
		for i := range m.blocks[:res.Blocks] {
			if string(m.blocks[i].Bytes) != string(tiertest.Payload(m.blocks[i].Key, len(m.blocks[i].Bytes))) {
				panic("wrong bytes under a key")
			}
		}
	}
	return res
}

func (m *move) isDone() bool { return len(m.done) > 0 }

// get loads, and waits until all is over.
func (r *rig) get(blocks []tier.Block) tier.Result {
	r.t.Helper()
	m := r.submit(ctx, true, 0, blocks)
	res := m.result()
	<-m.released
	return res
}

func (r *rig) put(blocks []tier.Block) tier.Result {
	r.t.Helper()
	m := r.submit(ctx, false, 0, blocks)
	res := m.result()
	<-m.released
	return res
}

func chain(name string, n int) []tier.Block { return tiertest.Chain("mover", name, n, size) }

func keys(blocks []tier.Block) (out []tier.Key) {
	for _, b := range blocks {
		out = append(out, b.Key)
	}
	return out
}

var errDisk = errors.New("input/output error")

// gate is a hook that blocks calls of an operation until it is opened, or their context ends.
func gate(op string) (hook func(context.Context, string) error, open func()) {
	c := make(chan struct{})
	return func(ctx context.Context, called string) error {
		if called != op {
			return nil
		}
		select {
		case <-c:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, func() { close(c) }
}

// stubborn is a gate that knows no contexts.
func stubborn(op string) (hook func(context.Context, string) error, open func()) {
	c := make(chan struct{})
	return func(_ context.Context, called string) error {
		if called == op {
			<-c
		}
		return nil
	}, func() { close(c) }
}

// after waits in simulated time.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
