package backendtest

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// spoil breaks one thing in a good call of an operation.
type spoil[B backend.Buffer, P any] struct {
	name string
	do   func(r *rig[B], p *P)
}

// operation is a good call, and how to make it.
type operation[B backend.Buffer, P any] struct {
	name string
	good func(r *rig[B]) P
	call func(r *rig[B], p P) error
}

// kind is what a good call stores.
type kind[B backend.Buffer] struct {
	name   string
	format func(r *rig[B]) backend.Format
	latent bool
}

func plainly[B backend.Buffer]() kind[B] { return kind[B]{format: (*rig[B]).plain} }

func badInputChecks[B backend.Buffer]() []check[B] {
	out := quantizedRefusals[B]()
	plain := plainly[B]()
	appends, attends, masses, merges := appendOperation(plain), attendOperation(plain), attendMassOperation(plain), mergeOperation[B]()
	gathers, copies, moves, rotates := gatherOperation(plain), copyOperation(plain), moveOperation(plain), rotateOperation(plain)
	out = append(out, refusals(appends, appendSpoils[B]())...)
	out = append(out, refusals(appends, cacheSpoils(appendCache[B]))...)
	out = append(out, refusals(appends, ropeSpoils(func(p *backend.AppendParams[B]) *backend.RotaryTable[B] { return &p.Rotary }))...)
	out = append(out, refusals(attends, attendSpoils[B]())...)
	out = append(out, refusals(attends, askedSpoils(attendAsked[B]))...)
	out = append(out, refusals(attends, cacheSpoils(attendCache[B]))...)
	out = append(out, refusals(masses, attendMassSpoils[B]())...)
	out = append(out, refusals(masses, askedSpoils(attendMassAsked[B]))...)
	out = append(out, refusals(masses, cacheSpoils(attendMassCache[B]))...)
	out = append(out, refusals(merges, mergeSpoils[B]())...)
	out = append(out, refusals(gathers, gatherSpoils[B]())...)
	out = append(out, refusals(gathers, cacheSpoils(gatherCache[B]))...)
	out = append(out, refusals(copies, copySpoils[B]())...)
	out = append(out, refusals(copies, cacheSpoils(copyCache[B]))...)
	copies.name += " from a cache"
	out = append(out, refusals(copies, cacheSpoils(copiedCache[B]))...)
	out = append(out, refusals(moves, moveSpoils[B]())...)
	out = append(out, refusals(moves, cacheSpoils(moveCache[B]))...)
	out = append(out, refusals(rotates, rotateSpoils[B]())...)
	out = append(out, refusals(rotates, cacheSpoils(rotateCache[B]))...)
	out = append(out, refusals(rotates, ropeSpoils(func(p *backend.RotateParams[B]) *backend.RotaryTable[B] { return &p.Rotary }))...)
	return append(out, accepted(appends), accepted(attends), accepted(masses), accepted(merges), accepted(gathers), accepted(copies),
		accepted(moves), accepted(rotates))
}

// The cache of each operation that has one.
func appendCache[B backend.Buffer](p *backend.AppendParams[B]) *backend.CacheView[B] { return &p.Cache }
func attendCache[B backend.Buffer](p *backend.AttendParams[B]) *backend.CacheView[B] { return &p.Cache }
func attendMassCache[B backend.Buffer](p *backend.AttendScoresParams[B]) *backend.CacheView[B] {
	return &p.Cache
}
func gatherCache[B backend.Buffer](p *backend.GatherParams[B]) *backend.CacheView[B] { return &p.Cache }
func copiedCache[B backend.Buffer](p *backend.CopyBlocksParams[B]) *backend.CacheView[B] {
	return &p.From
}
func copyCache[B backend.Buffer](p *backend.CopyBlocksParams[B]) *backend.CacheView[B] {
	return &p.To
}
func moveCache[B backend.Buffer](p *backend.MoveSlotsParams[B]) *backend.CacheView[B] {
	return &p.Cache
}
func rotateCache[B backend.Buffer](p *backend.RotateParams[B]) *backend.CacheView[B] { return &p.Cache }

// refusals are checks that a spoiled call is a typed error and changes nothing.
// A missing operand may be reported as no buffer of the device.
func refusals[B backend.Buffer, P any](op operation[B, P], spoils []spoil[B, P]) []check[B] {
	var out []check[B]
	for _, s := range spoils {
		out = append(out, check[B]{op.name + " with " + s.name, func(r *rig[B]) {
			p := op.good(r)
			s.do(r, &p)
			r.push()
			r.requireOneOf(op.call(r, p), backend.ErrArgument{}, backend.ErrUnsupported{}, backend.ErrOtherDevice)
			r.verify()
		}})
	}
	return out
}

// accepted is the check that the call is good before it is spoiled.
func accepted[B backend.Buffer, P any](op operation[B, P]) check[B] {
	return check[B]{op.name + " with nothing wrong", func(r *rig[B]) {
		p := op.good(r)
		r.push()
		require.NoError(r, op.call(r, p))
		require.NoError(r, r.s.Sync())
	}}
}

// cacheSpoils break the cache of an operation that has one.
func cacheSpoils[B backend.Buffer, P any](view func(p *P) *backend.CacheView[B]) []spoil[B, P] {
	var none B
	var out []spoil[B, P]
	add := func(name string, do func(r *rig[B], v *backend.CacheView[B])) {
		out = append(out, spoil[B, P]{name, func(r *rig[B], p *P) { do(r, view(p)) }})
	}
	plain := func(name string, do func(v *backend.CacheView[B])) {
		add(name, func(_ *rig[B], v *backend.CacheView[B]) { do(v) })
	}
	plain("no blocks", func(v *backend.CacheView[B]) { v.Blocks = 0 })
	plain("negative blocks", func(v *backend.CacheView[B]) { v.Blocks = -1 })
	plain("more blocks than there are", func(v *backend.CacheView[B]) { v.Blocks += 2 })
	plain("blocks that overflow", func(v *backend.CacheView[B]) { v.Blocks = math.MaxInt / 2 })
	plain("blocks that wrap around to few", func(v *backend.CacheView[B]) { v.Blocks = math.MinInt })
	plain("no KV heads", func(v *backend.CacheView[B]) { v.KVHeads = 0 })
	plain("negative KV heads", func(v *backend.CacheView[B]) { v.KVHeads = -2 })
	plain("KV heads that overflow", func(v *backend.CacheView[B]) { v.KVHeads = math.MaxInt/2 + 1 })
	plain("no block size", func(v *backend.CacheView[B]) { v.BlockSize = 0 })
	plain("a negative block size", func(v *backend.CacheView[B]) { v.BlockSize = -16 })
	plain("a block size that overflows", func(v *backend.CacheView[B]) { v.BlockSize = math.MaxInt/2 + 1 })
	plain("no key dim", func(v *backend.CacheView[B]) { v.K.Dim = 0 })
	plain("a negative value dim", func(v *backend.CacheView[B]) { v.V.Dim = -64 })
	plain("a value dim that overflows", func(v *backend.CacheView[B]) { v.V.Dim = math.MaxInt/2 + 1 })
	plain("no keys", func(v *backend.CacheView[B]) { v.K.Data = none })
	plain("no values", func(v *backend.CacheView[B]) { v.V.Data = none })
	add("keys that are too short", func(r *rig[B], v *backend.CacheView[B]) {
		v.K.Data = r.exact("short keys", v.K.Data.DType(), v.Blocks*v.KVHeads*v.BlockSize*v.K.Dim-1).buf
	})
	add("values that are too short", func(r *rig[B], v *backend.CacheView[B]) {
		v.V.Data = r.exact("short values", v.V.Data.DType(), v.Blocks*v.KVHeads*v.BlockSize*v.V.Dim-1).buf
	})
	add("keys of an index type", func(r *rig[B], v *backend.CacheView[B]) {
		v.K.Data = r.region("index keys", backend.U32, 0, v.Blocks*v.KVHeads*v.BlockSize*v.K.Dim).buf
	})
	add("quantized keys without scales", func(r *rig[B], v *backend.CacheView[B]) {
		v.K.Data = r.region("quantized keys", backend.Int8, 0, v.Blocks*v.KVHeads*v.BlockSize*v.K.Dim).buf
	})
	plain("values stored turned", func(v *backend.CacheView[B]) { v.V.Hadamard = true })
	add("scales of values that have none", func(r *rig[B], v *backend.CacheView[B]) {
		v.V.Scales = backend.Some(r.region("value scales", backend.F32, 0, v.Blocks*v.KVHeads*v.BlockSize).buf)
	})
	return out
}

// ropeSpoils break the rotation of an operation that has one.
func ropeSpoils[B backend.Buffer, P any](rope func(p *P) *backend.RotaryTable[B]) []spoil[B, P] {
	var out []spoil[B, P]
	add := func(name string, do func(r *rig[B], v *backend.RotaryTable[B])) {
		out = append(out, spoil[B, P]{name, func(r *rig[B], p *P) { do(r, rope(p)) }})
	}
	add("odd rope dims", func(_ *rig[B], v *backend.RotaryTable[B]) { v.Dims = 31 })
	add("no rope dims", func(_ *rig[B], v *backend.RotaryTable[B]) { v.Dims = 0 })
	add("negative rope dims", func(_ *rig[B], v *backend.RotaryTable[B]) { v.Dims = -2 })
	add("more rope dims than the head has", func(_ *rig[B], v *backend.RotaryTable[B]) { v.Dims = 2048 })
	add("more positions than the table has", func(_ *rig[B], v *backend.RotaryTable[B]) { v.Positions += 20 })
	add("positions that overflow", func(_ *rig[B], v *backend.RotaryTable[B]) { v.Positions = math.MaxInt })
	add("negative table positions", func(_ *rig[B], v *backend.RotaryTable[B]) { v.Positions = -1 })
	add("an unknown pairing", func(_ *rig[B], v *backend.RotaryTable[B]) { v.Pairing = 2 })
	add("a rope table of another type", func(r *rig[B], v *backend.RotaryTable[B]) {
		v.Table.Buf = r.region("table of f16", backend.F16, 0, v.Positions*v.Dims).buf
	})
	add("no rope table", func(_ *rig[B], v *backend.RotaryTable[B]) { v.Table = backend.Opt[B]{} })
	return out
}
