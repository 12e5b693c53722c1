package kvcache

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Shift drops tokens [begin, end) and moves what follows to the positions that
// become free, turning its keys back by as many (RoPE re-rotation, as in
// StreamingLLM and llama.cpp's K-shift). Whole blocks are dropped from the table;
// a range that does not fall on block borders has its slots moved. Blocks that
// others share are copied before they change. The next token's position is back by as
// many, too. Quantized keys are quantized anew: each element is then within half a step
// of the turned one. With Config.Residual what changes goes to new blocks: ErrOutOfBlocks where there
// are too few of either kind. Without Config.RoPE it is ErrUnsupported.
//
// Should the device fail once slots have begun to move, the sequence's content is
// undefined and it can only be released. Any failure before leaves it as it was, with Config.Residual
// any at all.
func (s *Sequence[B]) Shift(stream backend.Stream, begin, end int) error {
	p := s.pool
	p.lock()
	defer p.unlock()
	if err := s.changeable("shift", stream); err != nil {
		return err
	}
	switch {
	case !p.rope.Table.Set:
		return backend.ErrUnsupported{Package: "kvcache", Op: "shift", Why: "Config.RoPE is not set, so keys cannot move to other positions"}
	case begin < 0 || end < begin || end > s.len:
		return backend.ErrShape{Package: "kvcache", Op: "shift", What: fmt.Sprintf("range [%d, %d): the sequence has %d tokens", begin, end, s.len)}
	case begin == end:
		return nil
	}
	gap := end - begin
	source := func(_, i int) int {
		if i < begin {
			return i
		}
		return i + gap
	}
	turn := func(_, i int) int {
		if i < begin {
			return 0
		}
		return -gap
	}
	before := s.len
	c := compaction[B]{seq: s, stream: stream, lists: 1, source: source, turn: turn, len: s.len - gap}
	if err := c.run(); err != nil {
		return lacking("shift", err)
	}
	s.forgetPrompt()
	s.shifted(begin, before-s.len)
	s.places.shift(begin, gap, s.len)
	return nil
}

// changeable reports why the sequence's content cannot be changed on a stream. The
// caller holds the lock.
func (s *Sequence[B]) changeable(op string, stream backend.Stream) error {
	if err := s.idle(op); err != nil {
		return err
	}
	if err := s.pool.usable(); err != nil {
		return err
	}
	if stream == nil {
		return errNoStream(op)
	}
	return nil
}
