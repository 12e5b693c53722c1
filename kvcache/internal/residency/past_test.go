package residency

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// history is a sequence whose steps the test fails one by one, in a pool of a few blocks.
type history struct {
	t      *testing.T
	r      *Blocks
	fences *Fences
	ev     events
	q      queue
	root   prefix.Root
	fence  *Fence
	past   Writers
	lost   []block.Block // of which undefined was told
}

func newHistory(t *testing.T, blocks int) *history {
	h := &history{t: t, fences: &Fences{}, ev: events{limit: 1 << 30}}
	h.fences.Guarded(&guard{})
	var err error
	h.r, err = New(h.fences, blocks, ofBlocks(prefix.Config{BlockSize: blockTokens}), func(b block.Block, err error) {
		require.ErrorIs(t, err, errFault)
		h.lost = append(h.lost, b)
	})
	require.NoError(t, err)
	h.root = prefix.Fingerprint{}.Root(prefix.Scope{})
	return h
}

func (h *history) take(n int) []block.Block {
	blocks, err := h.r.Take(&block.Claim{}, h.root, nil, n)
	require.NoError(h.t, err)
	return blocks
}

// step is one that writes blocks, tokens from one on, and fails with err.
func (h *history) step(err error, from int, blocks ...block.Block) *work {
	w := h.q.enqueue(blocks, blocks)
	w.err = err
	f, err := h.r.Record(&h.ev, &h.q)
	require.NoError(h.t, err)
	h.r.Replace(&h.fence, f)
	h.past.Add(h.fences, f, from)
	return w
}

func (h *history) publish(tokens []uint32, blocks ...block.Block) int {
	n, err := publish(h.r, h.fence, &h.past, prefix.Path{Root: h.root}, tokens, blocks)
	require.NoError(h.t, err)
	return n
}

// settle lets the device finish, and reports which of the blocks are found.
func (h *history) settle(blocks ...block.Block) (found []bool) {
	require.NoError(h.t, h.q.Sync())
	if err := h.r.Reclaim(); err != nil {
		require.ErrorIs(h.t, err, errFault)
	}
	for _, b := range blocks {
		found = append(found, h.r.Published(b))
	}
	return found
}

// close releases the sequence's blocks. Nobody holds a fence then.
func (h *history) close(blocks ...block.Block) {
	if err := h.r.Retire(h.fence, blocks); err != nil {
		require.ErrorIs(h.t, err, errFault)
	}
	h.r.Drop(h.fence)
	h.past.Cut(h.fences, 0)
	h.settle()
	require.NoError(h.t, h.r.Check(&Books{}))
	require.NoError(h.t, h.fences.Check(nil))
}

// A step that ends while the pool looks has its entries told as written before they are given up, and can be evicted.
func TestWrittenIsToldBeforeBlocksAreGivenUp(t *testing.T) {
	h := newHistory(t, 1)
	var told []block.Block
	h.r.OnWritten = func(entry block.Block) { told = append(told, entry) }
	b := h.take(1)
	w := h.step(nil, 0, b...)
	require.Equal(t, 1, h.publish([]uint32{1, 2}, b...))
	require.NoError(t, h.r.Retire(h.fence, b))
	require.Equal(t, 1, h.r.retiredRefs())
	h.ev.asked = w.finish
	require.NoError(t, h.r.Reclaim())
	require.Zero(t, h.r.retiredRefs())
	require.Equal(t, b, told)
	h.close()
}

// Steps that end while the pool looks do not have the end of a path given up after its beginning: whichever
// answer they end after, what the earlier step held is given up with what the later one did.
func TestEndIsGivenUpNoLaterThanBeginning(t *testing.T) {
	for answers := 1; answers < 8; answers++ {
		h := newHistory(t, 3)
		b := h.take(3)
		h.step(nil, 0, b[:2]...)
		require.Equal(t, 2, h.publish([]uint32{1, 2, 3, 4}, b[:2]...))
		h.settle()
		h.step(nil, 4, b[2])
		require.NoError(t, h.r.Retire(h.fence, b[1:2]))
		w := h.step(nil, 5, b[2])
		h.r.Writes(h.fence, &Writers{}, b[0])
		require.NoError(t, h.r.Retire(h.fence, b[:1]))
		n := 0
		h.ev.asked = func() {
			if n++; n == answers {
				w.finish()
			}
		}
		require.NoError(t, h.r.Reclaim())
		held := Books{}
		held.Own(b[2:])
		require.NoError(t, h.r.Check(&held), "ended after %d answers", answers)
		h.ev.asked = nil
		h.close(b[2:]...)
	}
}

// A block that two steps filled is published by the second one: what the first failed to write is not found, whenever that
// is known, and is where no step failed.
func TestBlockOfTwoSteps(t *testing.T) {
	for _, errs := range [][2]error{{nil, nil}, {errFault, nil}, {nil, errFault}, {errFault, errFault}} {
		for _, late := range []bool{false, true} {
			h := newHistory(t, 2)
			b := h.take(1)
			first := h.step(errs[0], 0, b...)
			if !late {
				first.finish()
				h.fence.Reached()
			}
			h.step(errs[1], 0, b...)
			require.Equal(t, 1, h.publish([]uint32{1, 2}, b...))
			failed := errs[0] != nil || errs[1] != nil
			require.Equal(t, []bool{!failed}, h.settle(b...), "%v, late %v", errs, late)
			require.Equal(t, failed, slices.Contains(h.lost, b[0]))
			h.close(b...)
		}
	}
}

// Where all that is cached is claimed a full block cannot be exchanged for an equal one, and is not published by its step. The next step's fence
// says nothing of it: it is not found where its own step failed.
func TestBlockPublishedByALaterStep(t *testing.T) {
	for _, fault := range []error{nil, errFault} {
		h := newHistory(t, 4)
		tokens := []uint32{1, 2, 3, 4}
		known := h.take(1)
		h.step(nil, 0, known...)
		require.Equal(t, 1, h.publish(tokens[:2], known...))
		h.settle()
		require.NoError(t, h.r.Retire(nil, known)) // cached
		h.past.Cut(h.fences, 0)

		b := h.take(2)
		var claim block.Claim
		require.NoError(t, h.r.Reserve([]block.Reservation{{Claim: &claim, Blocks: 2}}))
		h.step(fault, 0, b[0])
		require.Zero(t, h.publish(tokens[:2], b[0]), "all that is cached is claimed")
		h.settle()
		h.r.Forget(known[0])
		h.step(nil, 2, b[1])
		require.Equal(t, 2, h.publish(tokens, b...))
		require.Equal(t, []bool{fault == nil, fault == nil}, h.settle(b...))
		h.r.Cancel(&claim)
		h.close(b...)
	}
}

// What a sequence has given up it may write again: a step that failed to write it before does not count.
func TestPastIsCut(t *testing.T) {
	h := newHistory(t, 2)
	b := h.take(2)
	h.step(nil, 0, b[0])
	h.step(errFault, 2, b[1])
	h.past.Cut(h.fences, 2)
	h.step(nil, 2, b[1])
	require.Equal(t, 2, h.publish([]uint32{1, 2, 3, 4}, b...))
	require.Equal(t, []bool{true, true}, h.settle(b...))
	h.close(b...)
}

// Who has a copy of the beginning of a block that others still write does not have it where they fail, and publishes nothing
// that others find.
func TestCopyOfWhatIsNotWritten(t *testing.T) {
	for _, fault := range []error{nil, errFault} {
		h := newHistory(t, 2)
		b, own := h.take(1), h.take(1)
		h.step(nil, 0, b...)
		h.step(fault, 1, b...)
		h.step(nil, 1, b...)
		require.Equal(t, 1, h.publish([]uint32{1, 2}, b...))
		others := h.past
		h.past = Writers{}
		h.r.Inherit(&h.past, b[0], 0)
		h.step(nil, 0, own...)
		require.Equal(t, 1, h.publish([]uint32{1, 3}, own...))
		require.Equal(t, []bool{fault == nil, fault == nil}, h.settle(b[0], own[0]))
		others.Cut(h.fences, 0)
		h.close(b[0], own[0])
	}
}

// Of steps that failed those are remembered which Cut forgets last.
func TestPastOfFailures(t *testing.T) {
	h := newHistory(t, 1)
	b := h.take(1)
	for _, from := range []int{4, 0, 2} {
		h.step(errFault, from, b...).finish()
		h.fence.Reached()
	}
	h.step(nil, 0, b...)
	h.past.Cut(h.fences, 2)
	require.Equal(t, 1, h.publish([]uint32{1, 2}, b...))
	require.Equal(t, []bool{false}, h.settle(b...))
	h.close(b...)
}

// A sequence of many steps remembers those of them that failed, and of the others no more than the device is behind.
func TestPastIsBounded(t *testing.T) {
	for _, fault := range []error{nil, errFault} {
		h := newHistory(t, 1)
		b := h.take(1)
		h.step(fault, 0, b...)
		for i := range 1000 {
			h.step(fault, i, b...)
			if n := len(h.q.steps); n > 3 {
				h.q.steps[n-3].finish()
			}
			require.LessOrEqual(t, len(h.past.steps), mostWriters)
		}
		require.LessOrEqual(t, len(h.fences.all), 2*mostWriters)
		require.Equal(t, 1, h.publish([]uint32{1, 2}, b...))
		require.Equal(t, []bool{fault == nil}, h.settle(b...))
		h.close(b...)
	}
}

// Random histories in which many steps fail, and blocks are not published by their own step, or are filled by several, or copied:
// nothing is found that was not written.
func TestFailedStepsAgainstModel(t *testing.T) {
	failed := 0
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, rapid.IntRange(1, 8).Draw(t, "blocks"))
		m.sound = rapid.IntRange(1, 8).Draw(t, "sound")
		t.Repeat(map[string]func(*rapid.T){
			"open": func(*rapid.T) { m.open() }, "step": func(*rapid.T) { m.step() }, "step again": func(*rapid.T) { m.step() },
			"step more": func(*rapid.T) { m.step() }, "fork": func(*rapid.T) { m.fork() }, "truncate": func(*rapid.T) { m.truncate() },
			"release": func(*rapid.T) { m.release() }, "reserve": func(*rapid.T) { m.reserve() }, "reserve again": func(*rapid.T) { m.reserve() },
			"progress": func(*rapid.T) { m.progress() }, "pin": func(*rapid.T) { m.pin() }, "": func(*rapid.T) { m.check() },
		})
		m.end()
		for _, p := range m.paths {
			if p.failed {
				failed++
			}
		}
		m.close()
	})
	if !testing.Short() { // 20 histories may lack it
		require.NotZero(t, failed)
	}
}
