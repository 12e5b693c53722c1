package kvcache

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// KeepOptions say what becomes of positions when tokens are dropped.
type KeepOptions struct {
	// Reposition turns the keys of the tokens that stay to positions 0 to n−1 (RoPE
	// re-rotation), so that the next token is at position n and the sequence can go on
	// without end. Needs Config.RoPE. Without it each token keeps its position, and the
	// next one goes on behind the last.
	Reposition bool
}

// Keep drops all tokens but those that are named, in order: those that stay move to the
// front, their slots together, and blocks without tokens go back to the pool. kept
// has one list for all layers, or one for each layer, all of one length: layers may
// keep different tokens, but equally many. Lists rise, from 0 to Len−1.
//
// Blocks that others share are copied before they change, and so are those behind a gap
// that are published and shared, which may take as many blocks as it frees:
// ErrOutOfBlocks. What others find of a published path stays as it was; from here on the
// sequence publishes nothing. A Mask's window and ALiBi count the tokens that are
// there, not positions. Quantized keys that turn are quantized anew.
//
// Should the device fail once slots have begun to move, the sequence's content is
// undefined and it can only be released. Any failure before leaves it as it was. With Config.Residual
// what is put together anew goes to new blocks, and any failure leaves the sequence as it was.
func (s *Sequence[B]) Keep(stream backend.Stream, kept [][]int, o KeepOptions) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.changeable("keep", stream); err != nil {
		return err
	}
	if err := s.checkKept(kept); err != nil {
		return err
	}
	if o.Reposition && !p.rope.Table.Set {
		return backend.ErrUnsupported{Package: "kvcache", Op: "keep", Why: "Config.RoPE is not set, so keys cannot move to other positions"}
	}
	if o.Reposition && len(s.places.lists) > len(kept) {
		kept = spread(kept[0], len(s.places.lists)) // layers have different positions to turn from
	}
	c := compaction[B]{seq: s, stream: stream, lists: len(kept), len: len(kept[0]),
		source: func(list, i int) int { return kept[list][i] }}
	if o.Reposition {
		c.turn = func(list, i int) int { return i - s.places.at(list, kept[list][i]) }
	}
	if c.len == s.len && !(o.Reposition && s.places.lists != nil) {
		return nil // all of them
	}
	if err := c.run(); err != nil {
		return lacking("keep", err)
	}
	if o.Reposition {
		s.places = places{next: s.len}
	} else {
		s.places.keep(kept)
	}
	s.forgetPrompt()
	s.evicted(c.from)
	return nil
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
	bad := func(format string, args ...any) error {
		return backend.ErrShape{Package: "kvcache", Op: "keep", What: fmt.Sprintf(format, args...)}
	}
	if n := s.pool.cfg.Layers; len(kept) != 1 && len(kept) != n {
		return bad("%d lists: need one for all layers, or one for each of %d", len(kept), n)
	}
	for l, list := range kept {
		if len(list) != len(kept[0]) {
			return bad("list %d has %d tokens, the first has %d; all layers keep equally many", l, len(list), len(kept[0]))
		}
		for i, token := range list {
			if token < 0 || token >= s.len || i > 0 && token <= list[i-1] {
				return bad("list %d: element %d is token %d of %d; need rising numbers", l, i, token, s.len)
			}
		}
	}
	return nil
}

// evicted notes that tokens were dropped: what lies from a token on, and what follows, was
// computed with tokens that its place does not tell.
func (s *Sequence[B]) evicted(from int) {
	if s.pool.tree == nil {
		return
	}
	s.tokens = s.tokens[:min(len(s.tokens), s.len)]
	s.unwrite(from)
	s.fidelity |= prefix.Evicted
	s.silent = true
}

// Next is the position of the next token: Len, unless Keep has left positions as they were.
func (s *Sequence[B]) Next() int { return s.places.next }

// Positions appends the positions of the sequence's tokens in a layer to dst. ErrReleased
// after Release.
func (s *Sequence[B]) Positions(dst []int, layer int) ([]int, error) {
	err := s.pool.shut()
	if s.released {
		err = ErrReleased
	}
	if err != nil {
		return dst, fmt.Errorf("kvcache: positions: %w", err)
	}
	if err := s.pool.checkLayer("positions", layer); err != nil {
		return dst, err
	}
	for i := range s.Len() {
		dst = append(dst, s.places.at(layer, i))
	}
	return dst, nil
}
