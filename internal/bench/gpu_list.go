package bench

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// list is everything that is measured of a GPU.
func (g *GPU[B]) list() []*GPUTrial[B] { return slices.Concat(g.moves(), g.hosted(), g.steps()) }

// moves is what only moves memory.
func (g *GPU[B]) moves() (all []*GPUTrial[B]) {
	in := func(stored backend.DType, tokens int) layer { return layer{llama, stored, tokens, blockSize} }
	add := func(name string, n int, m move[B]) {
		all = append(all, &GPUTrial[B]{Name: fmt.Sprintf("%s=%d", name, n), gpu: g, work: m.work(), set: m.operation})
	}
	for _, stored := range []backend.DType{backend.F16, backend.Int8, backend.Int4, backend.FP8E4M3} {
		for _, tokens := range []int{g.size(64, 16), g.size(4096, 64)} {
			add(fmt.Sprintf("append/f16-%v/tokens", stored), tokens, appends[B](backend.F16, in(stored, tokens)))
		}
	}
	tokens, blocks := g.size(8192, 64), g.size(512, 4)
	half := in(backend.F16, blocks*blockSize)
	add("gather/f16/tokens", tokens, gathers[B](in(backend.F16, tokens), backend.F16))
	add("copy-blocks/f16/blocks", blocks, copiesBlocks[B](half))
	add("move-slots/f16/slots", half.slots, movesSlots[B](half))
	for _, stored := range []backend.DType{backend.Int8, backend.Int4, backend.Int4Channel} {
		add(fmt.Sprintf("convert-blocks/f16-%v/blocks", stored), blocks, converts[B](half, stored))
	}
	add("rotate/f16/tokens", tokens, rotates[B](in(backend.F16, tokens)))
	n := g.size(1<<27, 1<<10)
	add("fill/f16/bytes", 2*n, fills[B](n))
	add("merge/f32-f16/parts=8/tokens", blocks, merges[B](llama, 8, blocks))
	return all
}

// steps is those that the device has types for.
func (g *GPU[B]) steps() (all []*GPUTrial[B]) {
	for _, s := range steps() {
		if !g.Backend.Caps().Supports(s.format()) {
			continue
		}
		if g.Emulated {
			s = s.reduced()
		}
		t := &GPUTrial[B]{Name: s.gpuName(), gpu: g, work: s.gpuWork(), act: s.act}
		t.set = func(m *memory[B], from source[B]) (*operation, error) {
			p, cache, err := operands(m, from, s)
			t.out = p.Out.Rows.Buf
			return attends(m, p, cache), err
		}
		if s.what == merge {
			t.set = func(m *memory[B], from source[B]) (*operation, error) { return g.mergeOf(t, m, from, s) }
		}
		all = append(all, t)
	}
	return all
}

// mergeOf is the launch that combines the parts of a step, in place of each of its launches.
// The parts were just written, as in the step itself, and lie where that leaves them.
func (g *GPU[B]) mergeOf(t *GPUTrial[B], m *memory[B], from source[B], s step) (*operation, error) {
	p, cache, err := operands(m, from, s)
	if err != nil {
		return nil, err
	}
	p.Cache = cache(0)
	if err := g.Backend.Attend(g.Stream, p); err != nil {
		return nil, err
	}
	run, times, err := g.Merges(p)
	if err != nil {
		return nil, err
	}
	if times == 0 {
		return nil, ErrNothing
	}
	rows := s.query * s.dim // of a sequence
	t.work = work{bytes: float64(4*p.Plan.Parts*rows + sizeOf(s.act, s.batch*rows)), times: times}
	return each(run), nil
}
