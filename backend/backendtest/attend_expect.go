package backendtest

import (
	"math"
	"runtime"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// expected is the reference's result of a case, in the order of the device's.
type expected struct {
	out  []float64 // [tokens, qHeads, vDim]
	lse  []float64 // [tokens, qHeads]
	mass []float64 // [blocks, kvHeads, block], what the call adds
	more []float64 // the same, under the given log-sum-exps
}

// expect computes the reference, a goroutine for each sequence and KV head.
func (a *attendRun[B]) expect() expected {
	e := expected{
		out:  make([]float64, a.tokens()*a.qHeads*a.vDim),
		lse:  make([]float64, a.tokens()*a.qHeads),
		mass: make([]float64, a.cache.slots()*a.kvHeads),
		more: make([]float64, a.cache.slots()*a.kvHeads),
	}
	var lock sync.Mutex // of mass: sequences may share blocks
	var wg sync.WaitGroup
	room := make(chan struct{}, runtime.GOMAXPROCS(0))
	next := 0
	for i, seq := range a.seqs {
		first := next
		next += seq.queries
		for kv := range a.kvHeads {
			wg.Go(func() {
				room <- struct{}{}
				mass, more := a.expectHead(i, kv, first, e)
				lock.Lock()
				for token := range mass {
					slot := a.slot(i, token)
					at := (slot/a.cache.block*a.kvHeads+kv)*a.cache.block + slot%a.cache.block
					e.mass[at] += mass[token]
					e.more[at] += more[token]
				}
				lock.Unlock()
				<-room
			})
		}
	}
	wg.Wait()
	return e
}

// expectHead computes the query heads that read one KV head of a sequence whose
// queries begin at token first, and returns the attention scores of its keys, under their own log-sum-exps
// and under those that are given.
func (a *attendRun[B]) expectHead(seq, kv, first int, e expected) (mass, more []float64) {
	context, queries := a.seqs[seq].context, a.seqs[seq].queries
	h := newHistory(a.kDim, a.vDim, context)
	for token := range context {
		slot := a.slot(seq, token)
		set(h.keys, token, a.key(slot, kv))
		set(h.values, token, a.value(slot, kv))
	}
	mass, more = make([]float64, context), make([]float64, context)
	group := a.qHeads / a.kvHeads
	for i := range queries {
		for head := kv * group; head < (kv+1)*group; head++ {
			q := vector(a.queries[first+i][head*a.kDim : (head+1)*a.kDim])
			res := attend(q, a.viewer(seq, first, i), h, a.visibility(head))
			row := (first+i)*a.qHeads + head
			copy(e.out[row*a.vDim:], res.out.Raw())
			e.lse[row] = res.lse
			for key, p := range res.prob {
				mass[key] += p
				more[key] += p * math.Exp(-math.Abs(shiftOf(row)))
			}
		}
	}
	return mass, more
}

func (a *attendRun[B]) visibility(head int) visibility {
	v := a.attendSpec.mask.visibility(a.cache.block)
	v.scale, v.slope, v.sinkLogit = float64(a.scale()), float64(a.slopes[head]), float64(a.logits[head])
	return v
}

// visibility is what all query heads have in common.
func (m *maskSpec) visibility(block int) visibility {
	return visibility{window: m.window, sinkTokens: m.sinkTokens, chunk: m.chunk,
		part: m.part, recent: m.recent, block: block, softCap: float64(m.softCap)}
}

// compare holds the device's results against the reference and then every buffer
// against its image.
func (a *attendRun[B]) compare(e expected) {
	limit, lse := a.limits()
	got := a.r.fetch(a.out.region)
	require.NoError(a.r, compareRows("output", a.out.values(got), e.out, a.vDim, limit,
		axisOf{"token", a.tokens()}, axisOf{"head", a.qHeads}))
	a.out.accept(got)
	if a.lse != nil {
		got := a.lse.part(a.r.fetch(a.lse), 0, a.lse.n)
		require.NoError(a.r, compareLSE(widen(decode(backend.F32, got)), e.lse, lse,
			axisOf{"token", a.tokens()}, axisOf{"head", a.qHeads}))
		a.lse.set(0, got)
	}
	if a.mass != nil {
		a.compareMass(e.mass, limit)
	}
	a.r.verify()
	if a.mass != nil {
		a.weigh(e)
	}
}

// compareMass compares what was added to the attention scores, a row for each block
// and head. Slots that no query sees keep their bits.
func (a *attendRun[B]) compareMass(added []float64, limit float64) {
	before := widen(decode(backend.F32, a.mass.part(a.mass.image, 0, a.mass.n)))
	data := a.mass.part(a.r.fetch(a.mass), 0, a.mass.n)
	got, want := widen(decode(backend.F32, data)), make([]float64, len(added))
	for i := range want {
		want[i] = before[i] + added[i]
	}
	require.NoError(a.r, compareRows("attention scores", got, want, a.cache.block, limit,
		axisOf{"block", a.cache.blocks}, axisOf{"KV head", a.kvHeads}))
	for i := range added {
		if added[i] > 0 {
			a.mass.set(i, data[4*i:4*i+4])
		}
	}
}
