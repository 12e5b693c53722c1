package tier_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/tiertest"
)

// stack is a mover over host memory, host memory that fails, and a disk: real tiers, in real time.
type stack struct {
	*tier.Mover
	tiers  []tier.Tier
	faulty *faulty
	disk   *disk.Tier
}

func openStack(t testing.TB, dir string, fast, low, slots, payload int64) *stack {
	s := &stack{}
	top, err := memory.Open(memory.Options{Bytes: fast * payload})
	require.NoError(t, err)
	in, err := memory.Open(memory.Options{Bytes: low * payload})
	require.NoError(t, err)
	s.faulty = &faulty{Tier: in, name: "faulty", forgetful: true}
	const page, entry = 4096, 256
	stride := (payload + page - 1) / page * page
	s.disk, err = disk.Open(disk.Options{Dir: dir, Payload: payload, Bytes: 3*page + slots*(stride+entry), Floor: 1})
	require.NoError(t, err)
	s.tiers = []tier.Tier{top, s.faulty, s.disk}
	s.Mover, err = tier.NewMover(s.tiers, tier.MoverOptions{Promote: true, Pause: time.Millisecond, Longest: 5 * time.Millisecond, Grace: time.Minute})
	require.NoError(t, err)
	return s
}

// close closes all, the mover first, in the middle of what is on its way.
func (s *stack) close(t testing.TB) {
	require.NoError(t, s.Close())
	for _, in := range s.tiers {
		require.NoError(t, in.Close())
	}
}

// worker has sequences of its own, and a naive model of them: of each key whether it may be found, for it was stored since it
// was last forgotten, and whether it must be, for the disk took it and has room for all.
type worker struct {
	*stack
	rng       *rand.Rand
	root      tier.Key
	chains    [][]tier.Block
	may, must map[tier.Key]bool
	roomy     bool
}

var errModel = errors.New("not as the model")

// wrong is an error of a worker, for require must not be called by other goroutines.
func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errModel, fmt.Sprintf(format, args...))
}

// some is a part of one of its chains.
func (w *worker) some() []tier.Block {
	c := w.chains[w.rng.IntN(len(w.chains))]
	from := []int{0, 0, 0, 2}[w.rng.IntN(4)]
	return c[from : from+1+w.rng.IntN(len(c)-from)]
}

// move stores or loads, and waits until all is released.
func (w *worker) move(ctx context.Context, load bool, blocks []tier.Block) (r tier.Result, got []tier.Block, err error) {
	got = append(got, blocks...)
	if load {
		for i := range got {
			got[i].Bytes = make([]byte, len(blocks[i].Bytes))
		}
	}
	released := make(chan struct{})
	j := tier.Job{Blocks: got, Wait: true, Done: func(is tier.Result) { r = is }, Release: func() { close(released) }}
	if load {
		err = w.Load(ctx, j)
	} else {
		err = w.Store(ctx, j)
	}
	if err == nil {
		<-released
	}
	return r, got, err
}

func (w *worker) store(ctx context.Context) error {
	blocks := w.some()
	for _, b := range blocks {
		w.may[b.Key] = true
	}
	r, _, err := w.move(ctx, false, blocks)
	if err == nil && r.By[2] == len(blocks) {
		for _, b := range blocks {
			w.must[b.Key] = true
		}
	}
	return unless(ctx, err)
}

// unless is an error, unless it is that of the context.
func unless(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// agrees compares how many of the first blocks were found with the model; whole: all tiers were asked.
func (w *worker) agrees(op string, blocks []tier.Block, n int, whole bool) error {
	for i, b := range blocks {
		switch {
		case i < n && !w.may[b.Key]:
			return wrong("%s finds block %d of %d, which was forgotten or never stored", op, i, len(blocks))
		case i >= n && !w.must[b.Key]:
			return nil
		case i >= n && whole && w.roomy:
			return wrong("%s does not find block %d of %d, which the disk took", op, i, len(blocks))
		}
	}
	return nil
}

func (w *worker) load(ctx context.Context) error {
	blocks := w.some()
	r, got, err := w.move(ctx, true, blocks)
	if err != nil {
		return unless(ctx, err)
	}
	for i := range got[:r.Blocks] {
		if !bytes.Equal(got[i].Bytes, blocks[i].Bytes) {
			return wrong("wrong bytes under a key")
		}
	}
	return w.agrees("load", blocks, r.Blocks, r.Err == nil)
}

func (w *worker) has(ctx context.Context) error {
	blocks, n := w.some(), 0
	places, err := w.Has(ctx, keys(blocks))
	for _, p := range places {
		n += p.Blocks
	}
	if err != nil {
		return unless(ctx, err)
	}
	return w.agrees("has", blocks, n, true) // the disk does not fail
}

// forget deletes blocks, or clears its root. When a tier could not, as it failed, they may be found.
func (w *worker) forget(ctx context.Context, clear bool) error {
	blocks := w.some()
	var err error
	if clear {
		blocks, err = nil, w.Clear(ctx, w.root)
		for _, c := range w.chains {
			blocks = append(blocks, c...)
		}
	} else {
		err = w.Delete(ctx, keys(blocks))
	}
	for _, b := range blocks {
		delete(w.must, b.Key)
		if err == nil {
			delete(w.may, b.Key)
		}
	}
	return nil
}

// breaks has the middle tier fail at times.
func (w *worker) breaks() {
	rng, op := w.rng.Uint64(), []string{"has", "get", "put", "delete", "clear"}[w.rng.IntN(5)]
	how := []func(context.Context) error{
		func(context.Context) error { return errDisk },
		func(context.Context) error { panic("defect") },
		func(ctx context.Context) error { time.Sleep(time.Millisecond); return ctx.Err() },
		func(context.Context) error { return nil },
	}[w.rng.IntN(4)]
	var calls atomic.Uint64
	w.faulty.set(func(ctx context.Context, called string) error {
		if called == op && (calls.Add(1)*rng)>>62 == 0 {
			return how(ctx)
		}
		return nil
	})
	lie := w.rng.IntN(3) - 1 // −1, or more than was asked for
	w.faulty.mu.Lock()
	defer w.faulty.mu.Unlock()
	w.faulty.lie = func(b []tier.Block, n int) int {
		if i := int(calls.Add(1)*rng>>32) % len(b); lie == 0 && n > 0 {
			b[i].Bytes[len(b[i].Bytes)/2]++
		}
		return n
	}
	w.faulty.count = nil
	if lie != 0 {
		w.faulty.count = func(_ string, n int) int {
			if (calls.Add(1)*rng)>>61 == 0 {
				return lie * (1 << 20)
			}
			return n
		}
	}
}

// call does one operation.
func (w *worker) call() error {
	during := ctx
	if w.rng.IntN(50) == 0 {
		var cancel context.CancelFunc
		during, cancel = context.WithTimeout(ctx, time.Duration(w.rng.IntN(500))*time.Microsecond)
		defer cancel()
	}
	switch n := w.rng.IntN(1000); {
	case n < 300:
		return w.store(during)
	case n < 700:
		return w.load(during)
	case n < 960:
		return w.has(during)
	case n < 985:
		return w.forget(during, false)
	case n < 995:
		return w.forget(during, true)
	}
	w.breaks()
	return nil
}

// shut submits what will be on its way when the mover is closed: nobody knows what becomes of it.
func (w *worker) shut(ended *sync.WaitGroup) error {
	for range 3 {
		blocks := append([]tier.Block(nil), w.some()...)
		load := w.rng.IntN(2) == 0
		for i, b := range blocks {
			if load {
				blocks[i].Bytes = make([]byte, len(b.Bytes))
			} else {
				w.may[b.Key] = true
			}
		}
		do := w.Store
		if load {
			do = w.Load
		}
		ended.Add(2)
		if err := do(ctx, tier.Job{Blocks: blocks, Wait: true, Done: func(tier.Result) { ended.Done() }, Release: ended.Done}); err != nil {
			return err
		}
	}
	return nil
}

// Operations on three tiers at once, one of which fails in all ways, find what a naive model has: never wrong bytes, never what was
// forgotten, and all that a disk took that has room for it, also after a close in the middle and reopening. Full tests do a million of
// them.
func TestOperations(t *testing.T) {
	operations, rounds := 20_000, 10
	switch {
	case testsize.Full():
		operations, rounds = 1_000_000, 50
	case testing.Short():
		operations = 5_000
	}
	const workers, payload = 4, 600
	for _, roomy := range []bool{true, false} {
		dir := t.TempDir()
		slots := int64(workers * 4 * 8)
		if !roomy {
			slots /= 2
		}
		var all []*worker
		for i := range workers {
			w := &worker{rng: rand.New(rand.NewPCG(uint64(i), 27)), may: map[tier.Key]bool{}, must: map[tier.Key]bool{}, roomy: roomy}
			for c := range 4 {
				w.chains = append(w.chains, tiertest.Chain(fmt.Sprint("worker", i), fmt.Sprint(c), 8, payload-7*c))
			}
			w.root = w.chains[0][0].Root
			all = append(all, w)
		}
		var loaded, evicted, lied int64 // by the disk, and the tier that lies, in all rounds: one may have none
		for range rounds {
			s := openStack(t, dir, 16, 40, slots, payload)
			failed := make(chan error, 2*workers)
			var wg, ended sync.WaitGroup
			for _, w := range all {
				w.stack = s
				wg.Go(func() {
					for range operations / 2 / rounds / workers {
						if err := w.call(); err != nil {
							failed <- err
							return
						}
					}
					failed <- w.shut(&ended)
				})
			}
			wg.Wait()
			s.close(t)
			ended.Wait()
			for range workers {
				require.NoError(t, <-failed)
			}
			checkStack(t, s, roomy)
			loaded += s.Stats().Tiers[2].Loaded
			evicted += s.disk.Stats().Evicted
			lied += s.Stats().Tiers[1].Corrupt
		}
		require.Positive(t, loaded)
		require.Positive(t, lied)
		require.Equal(t, roomy, evicted == 0)
	}
}

// checkStack looks at the books of what is closed.
func checkStack(t *testing.T, s *stack, roomy bool) {
	m, d := s.Stats(), s.disk.Stats()
	require.Zero(t, m.Jobs)
	require.Zero(t, m.InFlight)
	require.Zero(t, m.Tiers[0].Errors+m.Tiers[0].Panics+m.Tiers[0].Wrong+m.Tiers[0].Timeouts, "%+v", m.Tiers[0])
	require.Zero(t, m.Tiers[2].Errors+m.Tiers[2].Panics+m.Tiers[2].Wrong+m.Tiers[2].Timeouts, "%+v", m.Tiers[2])
	require.Zero(t, d.Corrupt)
	require.Zero(t, d.Failures)
	if roomy {
		require.Zero(t, d.Evicted+d.Declined, "%+v", d)
	}
}
