package runner

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Work is the new tokens of one sequence in a step, or a tree of guesses.
type Work[B backend.Buffer] struct {
	Seq    *kvcache.Sequence[B]
	Tokens []uint32
	// Parents makes a tree of the tokens, as kvcache.Batch.AddTree has it, and Right receives the logits of its nodes and says
	// which of them the sequence gets. nil: the tokens follow each other.
	Parents []int
	Right   func(nodes Logits) (path []int)
	// Rest are the sequence's parts in the pools of layers 1 and on, with Options.LayerPools.
	Rest []*kvcache.Sequence[B]
}

// of is the sequence's part in a pool.
func (w *Work[B]) of(pool int) *kvcache.Sequence[B] {
	if pool == 0 {
		return w.Seq
	}
	return w.Rest[pool-1]
}

// Logits is rows of logits [Rows, Cols].
type Logits struct {
	Rows, Cols int
	Data       []float32
}

// Row is one of them.
func (l *Logits) Row(i int) []float32 { return l.Data[i*l.Cols : (i+1)*l.Cols] }

// Forward runs one step: the tokens of all of work, in one batch. It returns the
// logits [len(work), vocab] of each sequence's last token or, with all, which trees need, those of
// every token [tokens, vocab]; they are valid until the next call. When it fails
// the sequences are as they were before, unless a device failed that had begun to compute states: see kvcache.Batch.State.
//
// A row of the result does not depend on what else is in the batch, nor on how a
// prompt is cut into steps, as far as the device's attention does not.
func (r *Runner[B]) Forward(work []Work[B], all bool) (logits Logits, err error) {
	defer func() {
		if err != nil {
			for _, step := range r.steps {
				_ = step.Reset() // gives back what it took; err is the cause
			}
		}
	}()
	defer caught(&err)
	defer faulted(r.model.path, &err)()
	for _, w := range work {
		r.add(w)
	}
	for _, step := range r.steps {
		check(step.Plan(r.stream))
	}
	logits = r.compute(work, all, func(int) bool { return true })
	m := r.model
	at := 0
	for _, w := range work {
		if w.Right != nil {
			path := w.Right(Logits{len(w.Tokens), m.Vocab, logits.Data[at*m.Vocab:]})
			for i, step := range r.steps {
				check(step.Accept(w.of(i), path))
			}
		}
		at += len(w.Tokens)
	}
	for _, step := range r.steps {
		check(step.Commit())
	}
	return logits, nil
}

// Step computes a batch that its caller planned on Batch and Stream and commits, as a scheduler does: the tokens of work are in it already, in this
// order. It returns the logits of the last token of each sequence that wanted asks for, [wanted, vocab], valid until the next call.
func (r *Runner[B]) Step(work []Work[B], wanted func(i int) bool) (logits Logits, err error) {
	defer caught(&err)
	defer faulted(r.model.path, &err)()
	return r.compute(work, false, wanted), nil
}

// compute computes the layers of a step that is planned, and the logits of all tokens, or of the last one of each sequence that is wanted.
func (r *Runner[B]) compute(work []Work[B], all bool, wanted func(i int) bool) Logits {
	m, n := r.model, r.embed(work)
	for l := range m.Layers {
		r.layer(l, n)
	}
	if !all { // gather the rows
		end := 0
		n = 0
		for i, w := range work {
			end += len(w.Tokens)
			if wanted(i) {
				copy(r.x[n*m.Dim:], r.x[(end-1)*m.Dim:end*m.Dim])
				n++
			}
		}
	}
	rms(r.h, r.x, m.Norm, n, float64(m.Eps))
	logits := Logits{Rows: n, Cols: m.Vocab, Data: r.floats("logits", n*m.Vocab)}
	r.multiply(logits.Data, m.Output, r.h, n)
	if limit := float64(m.LogitCap); limit > 0 {
		for i, v := range logits.Data {
			logits.Data[i] = float32(limit * math.Tanh(float64(v)/limit))
		}
	}
	return logits
}

// add adds the tokens of a sequence to the step.
func (r *Runner[B]) add(w Work[B]) {
	demand(len(w.Rest) == len(r.steps)-1, "forward", "%d sequences: need one for each of %d pools", 1+len(w.Rest), len(r.steps))
	for i, step := range r.steps {
		if w.Parents == nil {
			check(step.Add(w.of(i), w.Tokens))
		} else {
			check(step.AddTree(w.of(i), w.Tokens, w.Parents))
		}
	}
}

// embed has the embeddings and positions of the tokens of all of work, n of them.
func (r *Runner[B]) embed(work []Work[B]) (n int) {
	m := r.model
	for _, w := range work {
		first := n
		if len(w.Tokens) > r.rows-n { // what demand says takes memory
			demand(false, "forward", "more than the %d tokens of a step", r.rows)
		}
		for i, token := range w.Tokens {
			if uint64(token) >= uint64(m.Vocab) {
				demand(false, "forward", "token %d: the vocabulary has %d", token, m.Vocab)
			}
			row, parent := r.x[n*m.Dim:(n+1)*m.Dim], i-1
			if m.Embed.Row(row, int(token)); m.EmbedScale != 0 {
				scale(row, m.EmbedScale)
			}
			if w.Parents != nil {
				parent = w.Parents[i]
			}
			if r.positions[n] = w.Seq.NextPosition(); parent >= 0 {
				r.positions[n] = r.positions[first+parent] + 1
			}
			n++
		}
	}
	return n
}

// layer adds what a layer's two sublayers make of the n hidden states to them.
func (r *Runner[B]) layer(l, n int) {
	b, w, eps := r.model.block(l), &r.model.Layers[l], float64(r.model.Eps)
	rms(r.h, r.x, w.AttnNorm, n, eps)
	r.attention(l, n)
	r.residual(w.PostAttn, n, func(dst []float32) { r.linear(dst, &w.O, r.out.host, n, true) })
	rms(r.h, r.x, w.FFNNorm, n, eps)
	r.residual(w.PostFFN, n, func(dst []float32) {
		if w.Experts.Each != nil {
			r.route(dst, b, w, r.h, n)
		} else {
			r.feedForward(dst, true, b.Act, &w.FFN, r.h, n)
		}
	})
}

// residual adds what a sublayer adds to its dst to the n hidden states, normed where there are weights of a norm.
func (r *Runner[B]) residual(norm []float32, n int, add func(dst []float32)) {
	if norm == nil {
		add(r.x)
		return
	}
	y := r.floats("added", n*r.model.Dim)
	clear(y)
	add(y)
	rms(y, y, norm, n, float64(r.model.Eps))
	addScaled(r.x[:len(y)], y, 1)
}

// feedForward computes n rows of a gated block, dst = block(in), or with add adds that.
func (r *Runner[B]) feedForward(dst []float32, add bool, act string, w *FeedForward, in []float32, n int) {
	hidden, of, step := w.Down.Cols, activations[act], 1
	gate := r.floats("gate", n*w.Gate.Rows)
	up, inner := gate[1:], gate
	if w.Up.Matrix != nil {
		up = r.floats("up", n*hidden)
		r.linears(in, n, false, projection{gate, &w.Gate}, projection{up, &w.Up})
	} else { // after each gate
		r.linear(gate, &w.Gate, in, n, false)
		inner, step = r.floats("inner", n*hidden), 2
	}
	const each, nanoseconds = 64, 10 // numbers of a unit, and of a number
	units := (n*hidden + each - 1) / each
	split(r.model.path, parts(r.threads, units, nanoseconds*n*hidden), units, func(from, to int) {
		for i := from * each; i < min(to*each, n*hidden); i++ {
			inner[i] = of(gate[i*step], up[i*step])
		}
	})
	r.linear(dst, &w.Down, inner, n, add)
}
