package bench

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// moves adds trials of what moves memory. Amounts are the bytes that are read and those that
// are written, as those of the limit.
func (r *processor) moves() {
	n := r.size(8192, 512)
	in := func(dt backend.DType, block int) layer { return layer{llama, dt, n, block} }
	f16 := in(backend.F16, blockSize)
	for _, threads := range r.threads {
		on := r.best(threads)
		for _, dt := range []backend.DType{backend.F16, backend.Int8, backend.Int4, backend.FP8E4M3} {
			r.append(backend.F16, in(dt, blockSize), on)
		}
		r.append(backend.F16, in(backend.F16, n), on)
		r.append(backend.F32, f16, on)
		r.gather(f16, backend.F16, on)
		r.gather(f16, backend.F32, on)
		r.gather(in(backend.Int8, blockSize), backend.F32, on)
		r.move(fmt.Sprintf("copyblocks/%v", f16.keys), f16, on, copiesBlocks[*cpu.Buffer](f16))
		for _, dt := range []backend.DType{backend.Int8, backend.Int4} {
			r.move(fmt.Sprintf("convertblocks/%v-%v", f16.keys, dt), f16, on, converts[*cpu.Buffer](f16, dt))
		}
		r.move(fmt.Sprintf("rotate/%v", f16.keys), f16, on, rotates[*cpu.Buffer](f16))
	}
}

func (r *processor) append(act backend.DType, to layer, on spec) {
	r.move(fmt.Sprintf("append/%v-%v", act, to.keys), to, on, appends[*cpu.Buffer](act, to))
}

func (r *processor) gather(from layer, to backend.DType, on spec) {
	r.move(fmt.Sprintf("gather/%v-%v", from.keys, to), from, on, gathers[*cpu.Buffer](from, to))
}

// move adds a trial. It may take all that it reads and writes from one arena.
func (r *processor) move(what string, l layer, on spec, m move[*cpu.Buffer]) {
	place := m.reads + m.writes + 8*page
	r.add(&trial{name: fmt.Sprintf("%s/%s/tokens=%d", what, l.layout(), l.slots), on: on, work: m.work(), reads: place, writes: place,
		set: func(d *device) (*operation, error) {
			v := r.views(d)
			op, err := m.operation(&d.memory, v)
			if err == nil {
				op.aim = v.aim
			}
			return op, err
		}})
}
