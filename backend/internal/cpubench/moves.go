package cpubench

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// moves adds trials of what moves memory. Amounts are the bytes that are read and those that
// are written, as those of the limit.
func (r *rig) moves() {
	n := r.size(8192, 512)
	f16 := layer{backend.F16, n, blockSize}
	for _, threads := range r.threads {
		on := r.best(threads)
		for _, dt := range []backend.DType{backend.F16, backend.Int8, backend.Int4, backend.FP8E4M3} {
			r.append(backend.F16, layer{dt, n, blockSize}, on)
		}
		r.append(backend.F16, layer{backend.F16, n, n}, on)
		r.append(backend.F32, f16, on)
		r.gather(f16, backend.F16, on)
		r.gather(f16, backend.F32, on)
		r.gather(layer{backend.Int8, n, blockSize}, backend.F32, on)
		r.copyBlocks(f16, on)
		r.convert(f16, backend.Int8, on)
		r.convert(f16, backend.Int4, on)
		r.rotate(f16, on)
	}
}

// move adds a trial that reads and writes so many bytes. It may take all of them from one arena.
func (r *rig) move(name string, on spec, reads, writes int, set func(d *device) operation) {
	place := reads + writes + 8*page
	r.add(&trial{name: name, on: on, work: work{amount: float64(reads + writes), unit: "GB/s", bound: copying}, reads: place, writes: place, set: set})
}

// append writes new keys and values.
func (r *rig) append(act backend.DType, to layer, on spec) {
	n := to.slots * width // elements of the keys, and of the values
	bytes, _ := act.Size(2 * n)
	r.move(fmt.Sprintf("append/%v-%v/%s/tokens=%d", act, to.dt, to.layout(), to.slots), on, int(bytes), to.bytes(), func(d *device) operation {
		slots := upload(r, d, backend.I64, to.order())
		return aimed(r, d, d.be.Append, func(v *views) backend.AppendParams[*cpu.Buffer] {
			rows := v.of(r.stored.take(int(bytes)), act, 2*n)
			return backend.AppendParams[*cpu.Buffer]{Cache: v.layer(r.written, to), Tokens: to.slots, Slots: slots,
				K: backend.Dense(rows), V: backend.Rows[*cpu.Buffer]{Buf: rows, Offset: n}}
		})
	})
}

// gather brings one sequence from its blocks into one piece.
func (r *rig) gather(from layer, to backend.DType, on spec) {
	n := from.slots * width
	bytes, _ := to.Size(n)
	r.move(fmt.Sprintf("gather/%v-%v/%s/tokens=%d", from.dt, to, from.layout(), from.slots), on, from.bytes(), 2*int(bytes), func(d *device) operation {
		table := backend.Some(upload(r, d, backend.U32, shuffled(from.blocks())))
		return aimed(r, d, d.be.Gather, func(v *views) backend.GatherParams[*cpu.Buffer] {
			k := backend.Some(v.of(r.written.take(int(bytes)), to, n))
			return backend.GatherParams[*cpu.Buffer]{Cache: v.layer(r.stored, from), Table: table, Len: from.slots,
				K: k, V: backend.Some(v.of(r.written.take(int(bytes)), to, n))}
		})
	})
}

// copyBlocks copies the blocks of one half of a layer to the other half.
func (r *rig) copyBlocks(half layer, on spec) {
	whole := layer{half.dt, 2 * half.slots, half.block}
	r.move(fmt.Sprintf("copyblocks/%v/%s/tokens=%d", half.dt, half.layout(), half.slots), on, half.bytes(), half.bytes(), func(d *device) operation {
		pairs := upload(r, d, backend.U32, pairs(half.blocks(), half.blocks()))
		return aimed(r, d, d.be.CopyBlocks, func(v *views) backend.CopyBlocksParams[*cpu.Buffer] {
			return backend.CopyBlocksParams[*cpu.Buffer]{Cache: v.layer(r.written, whole), Pairs: pairs, N: half.blocks()}
		})
	})
}

// convert stores blocks as another type.
func (r *rig) convert(from layer, dt backend.DType, on spec) {
	to := layer{dt, from.slots, from.block}
	r.move(fmt.Sprintf("convertblocks/%v-%v/%s/tokens=%d", from.dt, dt, from.layout(), from.slots), on, from.bytes(), to.bytes(), func(d *device) operation {
		pairs := upload(r, d, backend.U32, pairs(from.blocks(), 0))
		return aimed(r, d, d.be.ConvertBlocks, func(v *views) backend.ConvertBlocksParams[*cpu.Buffer] {
			return backend.ConvertBlocksParams[*cpu.Buffer]{From: v.layer(r.stored, from), To: v.layer(r.written, to), Pairs: pairs, N: from.blocks()}
		})
	})
}

// rotate turns keys in place, as when a sequence is shifted. They stay as large as they were,
// in an arena of their own.
func (r *rig) rotate(l layer, on spec) {
	bytes := l.bytes() / 2
	r.move(fmt.Sprintf("rotate/%v/%s/tokens=%d", l.dt, l.layout(), l.slots), on, bytes, bytes, func(d *device) operation {
		const positions = 512
		table, err := backend.RoPE{}.Table(dim, positions)
		r.must(err)
		by := make([]int32, l.slots)
		for i := range by {
			by[i] = -100
		}
		slots, deltas := upload(r, d, backend.I64, l.order()), upload(r, d, backend.I32, by)
		rope := backend.Rope[*cpu.Buffer]{Table: backend.Some(upload(r, d, backend.F32, table)), Positions: positions, Dims: dim, Magnitude: 1}
		return aimed(r, d, d.be.Rotate, func(v *views) backend.RotateParams[*cpu.Buffer] {
			return backend.RotateParams[*cpu.Buffer]{Cache: v.layer(r.turned, l), Slots: slots, Deltas: deltas, N: l.slots, Rope: rope}
		})
	})
}
