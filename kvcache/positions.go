package kvcache

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/compact"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/text"
)

// Shift drops tokens [begin, end) and moves those after them to the positions that become free: their keys are rotated
// back by the length of the range (RoPE re-rotation, as in StreamingLLM and llama.cpp's K-shift), and the position of
// the next token is lower by as much. Whole blocks are dropped from the table; if the range does not begin and end
// between blocks, slots are moved. Blocks that others share are copied before they change. Quantized keys are quantized
// again, each element within half a step of the rotated value. With Storage.Residual everything that changes is written
// to new blocks (ErrOutOfBlocks if there are too few quantized or residual ones). Without Model.RoPE it returns
// backend.ErrUnsupported.
//
// If the device fails after slots began to move, the content of the sequence is undefined and it can only be
// released. Any earlier failure leaves it as it was; with Storage.Residual this holds for every failure.
func (s *Sequence[B]) Shift(stream backend.Stream, begin, end int) (err error) {
	defer naming("Sequence.Shift", &err)
	return s.pool.retry(func() error { return s.shift(stream, begin, end, nil) })
}

// Turn is keys of a layer that move to other positions: those in Slots of Cache, each by as many positions as Deltas says.
// The operands are backend.RotateParams'. The pool keeps ownership; they are valid until the function that gets them returns.
type Turn[B backend.Buffer] struct {
	Layer  int
	Cache  backend.CacheView[B] // keys as they are stored, also in few bits
	Slots  B                    // I64 [N]
	Deltas B                    // I32 [N], below 0
	N      int
}

// ShiftBy is Shift in a model with a rotation that the library does not have: rotate turns the keys of a layer. It enqueues
// that on stream, is called for every layer with keys and values, once or, with Storage.Residual, for some blocks at a time,
// and must not call the pool or the sequence. An error of it is ShiftBy's, as one of the device is Shift's.
func (s *Sequence[B]) ShiftBy(stream backend.Stream, begin, end int, rotate func(Turn[B]) error) (err error) {
	defer naming("Sequence.ShiftBy", &err)
	if rotate == nil {
		return argument("the function is nil; it is to turn the keys of a layer")
	}
	by := func(layer int, cache backend.CacheView[B], slots, deltas B, n int) error {
		if err := rotate(Turn[B]{Layer: layer, Cache: cache, Slots: slots, Deltas: deltas, N: n}); err != nil {
			return fmt.Errorf("the function that turns keys: %w", err)
		}
		return nil
	}
	return s.pool.retry(func() error { return s.shift(stream, begin, end, by) })
}

func (s *Sequence[B]) shift(stream backend.Stream, begin, end int, rotate compact.Rotate[B]) error {
	p := s.pool
	if err := s.usable(stream); err != nil {
		return err
	}
	switch {
	case !p.rotates() && rotate == nil:
		return unsupported("Model.RoPE is not set, so keys cannot move to other positions; ShiftBy takes a function that turns them")
	case begin < 0 || end < begin || end > s.Len():
		return argument("range [%d, %d): the sequence has %d tokens", begin, end, s.Len())
	case begin == end:
		return nil
	}
	cs, err := compact.Shift(&s.runs, stream, begin, end, rotate)
	if err != nil {
		return err
	}
	if err := s.compact(stream, cs); err != nil {
		return err
	}
	s.forgo() // it is not what it was opened for
	s.text.Shift(begin, end-begin, s.Len(), p.cfg.Storage.K.Quantized())
	return s.runs.Leave(begin)
}

// compact drops tokens in the middle of the sequence.
func (s *Sequence[B]) compact(stream backend.Stream, cs []compact.Compaction[B]) error {
	err := s.alone(func() error { return compact.Run(&s.runs, stream, cs) })
	if err != nil && slices.ContainsFunc(cs, func(c compact.Compaction[B]) bool { return c.Moved }) {
		s.runs.Failed = fmt.Errorf("content undefined after a failed compaction: %w", err)
	}
	return err
}

// RetainOptions says which positions the remaining tokens have when others are dropped.
type RetainOptions struct {
	// Reposition rotates the keys of the remaining tokens to positions 0 to n−1 (RoPE re-rotation), so that the next
	// token is at position n and positions stay below Memory.Capacity however long the sequence is continued. It needs
	// Model.RoPE. Without Reposition each token keeps its position, and the next token follows the last one.
	Reposition bool
}

// Retain drops all tokens except those in kept. The remaining tokens are moved together, in order, and blocks that
// become empty go back to the pool. kept has one list of token indices for all layers, or one for each layer, all of
// the same length: layers may keep different tokens, but equally many. Each list is in rising order, with indices from
// 0 to Len−1.
//
// Blocks that others share are copied before they change; published blocks after the first dropped token are copied,
// too, where others share them. This may need as many blocks as Retain frees (ErrOutOfBlocks). A published prefix
// stays as it was for other sequences; this sequence publishes nothing from now on. Windows and chunks, of a Mask or a
// group, sinks and ALiBi count the tokens that remain, not positions. Quantized keys whose position changes are quantized again.
//
// If the device fails after slots began to move, the content of the sequence is undefined and it can only be released.
// Any earlier failure leaves it as it was. With Storage.Residual the remaining tokens are written to new blocks, and
// every failure leaves the sequence as it was.
func (s *Sequence[B]) Retain(stream backend.Stream, kept [][]int, o RetainOptions) (err error) {
	defer naming("Sequence.Retain", &err)
	return s.pool.retry(func() error { return s.retain(stream, kept, o) })
}

func (s *Sequence[B]) retain(stream backend.Stream, kept [][]int, o RetainOptions) error {
	p := s.pool
	if err := s.usable(stream); err != nil {
		return err
	}
	if err := s.checkKept(kept); err != nil {
		return err
	}
	if o.Reposition && !p.rotates() {
		return unsupported("Model.RoPE is not set, so keys cannot move to other positions")
	}
	if o.Reposition && s.text.Positions.Lists() > len(kept) {
		kept = spread(kept[0], s.text.Positions.Lists()) // layers have different positions to turn from
	}
	var turn func(list, i int) int
	if o.Reposition {
		turn = func(list, i int) int { return i - s.text.Positions.At(list, kept[list][i]) }
	}
	if len(kept[0]) == s.Len() && !(o.Reposition && s.text.Positions.Lists() > 0) {
		return nil // all of them
	}
	cs, err := compact.Retain(&s.runs, stream, kept, turn)
	if err != nil {
		return err
	}
	if err := s.compact(stream, cs); err != nil {
		return err
	}
	from := moved(kept)
	for i := range cs {
		from = min(from, cs[i].From) // of a part that has cut tokens out a lower one
	}
	if o.Reposition {
		s.text.Positions = text.Positions{Next: s.Len()}
	} else {
		s.text.Positions.Keep(kept)
	}
	s.forgo()
	s.text.Evict(from, s.Len())
	return s.runs.Leave(from)
}

// moved is the first token that is another than before in some list.
func moved(kept [][]int) int {
	from := len(kept[0])
	for _, list := range kept {
		for i := range from {
			if list[i] != i {
				from = i
				break
			}
		}
	}
	return from
}

// spread is one list for n layers.
func spread(list []int, n int) [][]int {
	all := make([][]int, n)
	for i := range all {
		all[i] = list
	}
	return all
}

func (s *Sequence[B]) checkKept(kept [][]int) error {
	if n := s.pool.cfg.Model.Layers; len(kept) != 1 && len(kept) != n {
		return argument("%d lists: need one for all layers, or one for each of %d", len(kept), n)
	}
	for l, list := range kept {
		if len(list) != len(kept[0]) {
			return argument("list %d has %d tokens, the first has %d; all layers keep equally many", l, len(list), len(kept[0]))
		}
		for i, token := range list {
			if token < 0 || token >= s.Len() || i > 0 && token <= list[i-1] {
				return argument("list %d: element %d is token %d of %d; need rising numbers", l, i, token, s.Len())
			}
		}
	}
	return nil
}

// NextPosition is the position of the next token: Len, unless Retain dropped tokens and the others kept their
// positions.
func (s *Sequence[B]) NextPosition() int { return s.text.Positions.Next }

// Positions appends the positions of the sequence's tokens in a layer to dst. It returns
// ErrReleased after Release.
func (s *Sequence[B]) Positions(dst []int, layer int) (_ []int, err error) {
	defer naming("Sequence.Positions", &err)
	err = s.pool.closedErr()
	if s.released {
		err = ErrReleased
	}
	if err != nil {
		return dst, err
	}
	if err := s.pool.checkLayer(layer); err != nil {
		return dst, err
	}
	for i := range s.Len() {
		dst = append(dst, s.text.Positions.At(layer, i))
	}
	return dst, nil
}
