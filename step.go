package ferrumkv

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Step is one step of a model: the sequences that get new tokens, and the plan that serves all layers:
//
//	step.Add(seq, prompt[match.Cached:])   // for each sequence of the step, what it does not have
//	step.Plan()
//	step.Attend(layer, rows)                // in each layer
//	step.Commit()                           // the sequences have grown
type Step struct {
	// Batch is the step in the terms of package kvcache, with all that it can do. Its Plan is given Stream.
	Batch  *kvcache.Batch[backend.AnyBuffer]
	Stream backend.Stream

	cache   *Cache // nil: NewStep has not made it, or it was closed
	imports imports
	staging [4]backend.AnyBuffer // of q, k, v and out, on a device that does not compute on slices
}

// Rows are a layer's rows of one step, those of the step's tokens one after another in the order of Add. They are the
// caller's and exactly Step.Tokens rows long. Q and Out overlap none of the others.
type Rows struct {
	// Q is the queries [tokens, query heads, head dim], changed in place with Rotate and with Storage.Hadamard.
	Q []float32
	// K and V are the new keys [tokens, KV heads, head dim] and values [tokens, KV heads, value head dim]. With Model.Latent V
	// is the latents, and K what keys have behind them, [tokens, KV heads, head dim − value head dim].
	K, V []float32
	Out  []float32 // [tokens, query heads, value head dim], written
	// Rotate applies the rotary embedding (Model.RoPE) to Q and K. Without it they come rotated, or the layer has none.
	Rotate bool
}

// batch is the step's, or one that is closed.
func (s *Step) batch() *kvcache.Batch[backend.AnyBuffer] {
	if s.Batch == nil {
		return &kvcache.Batch[backend.AnyBuffer]{}
	}
	return s.Batch
}

// Reset is Batch.Reset: it abandons a step that was not committed.
func (s *Step) Reset() error { return naming("Step.Reset", s.batch().Reset()) }

// Add is Batch.Add: it gives a sequence new tokens in this step.
func (s *Step) Add(seq *Sequence, tokens []uint32) error {
	return naming("Step.Add", s.batch().Add(seq, tokens))
}

// Tokens is Batch.Tokens: the number of rows that the step's layers have, one for each new token. After Batch.FixShape,
// rows of empty places come after the others, and count.
func (s *Step) Tokens() int { return s.batch().Tokens() }

// Plan is Batch.Plan on the step's stream: it takes blocks, and divides the work of all layers.
func (s *Step) Plan() error { return naming("Step.Plan", s.batch().Plan(s.Stream)) }

// Commit is Batch.Commit: the tokens are their sequences' from here on.
func (s *Step) Commit() error { return naming("Step.Commit", s.batch().Commit()) }

// Attend writes a layer's keys and values into the cache and computes its attention, and returns when Out is there. A
// device whose memory is the host's uses the slices where they lie and copies nothing, and a step with the slices of an
// earlier one allocates nothing: to that end the Step keeps the slices of four calls a layer from being collected,
// until others take their place or Close. On a GPU rows are copied there and back in every call, which a runner with
// rows of its own on the GPU does without: see kvcache.LayerIO.
func (s *Step) Attend(layer int, r Rows) error {
	if s.cache == nil {
		return fmt.Errorf("ferrumkv: Step.Attend: %w", backend.ErrClosed)
	}
	if !s.Batch.Planned() { // which Append says in words
		return naming("Step.Attend", s.Batch.Append(layer, kvcache.LayerIO[backend.AnyBuffer]{}))
	}
	rows := [4][]float32{r.Q, r.K, r.V, r.Out}
	if err := s.check(&rows); err != nil {
		return err
	}
	var bufs [4]backend.AnyBuffer
	var err error
	if s.cache.host {
		err = s.imports.all(s.cache.Device, 16*s.cache.config.Model.Layers, &bufs, &rows)
	} else {
		err = s.send(&bufs, &rows)
	}
	if err != nil {
		return fmt.Errorf("ferrumkv: Step.Attend: %w", err)
	}
	io := kvcache.Dense(bufs[0], bufs[1], bufs[2], bufs[3])
	io.Rotate = r.Rotate
	if err := s.Batch.Append(layer, io); err != nil {
		return naming("Step.Attend", err)
	}
	if err := s.Batch.Attend(layer, io); err != nil {
		return naming("Step.Attend", err)
	}
	if err := s.receive(layer, &bufs, &r); err != nil {
		return fmt.Errorf("ferrumkv: Step.Attend: %w", err)
	}
	return nil
}

// check checks the lengths of rows, and that what is written overlaps nothing.
func (s *Step) check(rows *[4][]float32) error {
	bad := func(format string, args ...any) error {
		return backend.ErrArgument{Package: "ferrumkv", Op: "Step.Attend", What: fmt.Sprintf(format, args...)}
	}
	names := [4]string{"Q", "K", "V", "Out"}
	m, n := &s.cache.config.Model, s.Tokens()
	for i, want := range [4][2]int{{m.QHeads, m.HeadDim}, {m.KVHeads, m.RotatedDims()}, {m.KVHeads, m.VHeadDim}, {m.QHeads, m.VHeadDim}} {
		if need := n * want[0] * want[1]; len(rows[i]) != need {
			return bad("%s: %d elements, need %d: %d rows × %d heads × %d dims", names[i], len(rows[i]), need, n, want[0], want[1])
		}
	}
	for _, pair := range [...][2]int{{0, 1}, {0, 2}, {0, 3}, {1, 3}, {2, 3}} {
		if overlap(rows[pair[0]], rows[pair[1]]) {
			return bad("%s overlaps %s", names[pair[0]], names[pair[1]])
		}
	}
	return nil
}

// receive waits for the layer and brings back what it has written.
func (s *Step) receive(layer int, bufs *[4]backend.AnyBuffer, r *Rows) error {
	if s.cache.host {
		return s.Stream.Sync()
	}
	if r.Rotate || s.cache.config.HadamardOf(layer) {
		if err := backend.Download(s.cache.Device, s.Stream, r.Q, bufs[0], 0); err != nil {
			return err
		}
	}
	return backend.Download(s.cache.Device, s.Stream, r.Out, bufs[3], 0)
}

// send copies rows to the device, into buffers that grow with the longest step.
func (s *Step) send(bufs *[4]backend.AnyBuffer, rows *[4][]float32) error {
	be := s.cache.Device
	for i, row := range rows {
		if old := s.staging[i]; old.Len() < len(row) {
			b, err := be.Alloc(backend.F32, len(row))
			if err != nil {
				return err
			}
			s.staging[i] = b
			if old.Len() > 0 {
				if err := be.Free(old); err != nil {
					return err
				}
			}
		}
		bufs[i] = s.staging[i]
		if i < 3 {
			if err := backend.Upload(be, s.Stream, bufs[i], 0, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close ends the step: it resets it and frees what it has on the device.
func (s *Step) Close() error {
	c := s.cache
	if c == nil {
		return fmt.Errorf("ferrumkv: Step.Close: %w", backend.ErrClosed)
	}
	s.cache = nil
	err := s.Batch.Close()
	if errors.Is(err, backend.ErrClosed) { // with the cache, which has freed everything
		return naming("Step.Close", err)
	}
	errs := []error{err, s.imports.free(c.Device)}
	for _, b := range s.staging {
		if b.Len() > 0 {
			errs = append(errs, c.Device.Free(b))
		}
	}
	return errors.Join(append(errs, s.Stream.Close())...)
}
