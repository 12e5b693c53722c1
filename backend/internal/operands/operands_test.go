package operands

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// buffer has a name by which the device below refuses it.
type buffer struct {
	dt backend.DType
	n  int
}

func (b *buffer) Len() int             { return b.n }
func (b *buffer) DType() backend.DType { return b.dt }
func (b *buffer) Bytes() int64         { return int64(b.n) }

// device owns every buffer but one, and writes down what it was asked.
type device struct {
	foreign *buffer
	asked   *[]string
}

func (d device) Owns(op, name string, b *buffer) error {
	if d.asked != nil {
		*d.asked = append(*d.asked, name)
	}
	if b == d.foreign {
		return fmt.Errorf("test: %s: %s %w", op, name, backend.ErrForeign)
	}
	return nil
}

var caps = backend.Caps{Formats: []backend.Format{
	{Act: backend.F32, K: backend.F32, V: backend.F32},
	{Act: backend.F32, K: backend.Int8, V: backend.Int8},
}}

func (device) Caps() backend.Caps { return caps }

type params struct {
	append  backend.AppendParams[*buffer]
	attend  backend.AttendParams[*buffer]
	merge   backend.MergeParams[*buffer]
	gather  backend.GatherParams[*buffer]
	blocks  backend.CopyBlocksParams[*buffer]
	slots   backend.MoveSlotsParams[*buffer]
	convert backend.ConvertBlocksParams[*buffer]
	rotate  backend.RotateParams[*buffer]
}

// good is a valid call of every operation with every operand.
func good() params {
	f32 := func() *buffer { return &buffer{backend.F32, 64} }
	u32 := func() *buffer { return &buffer{backend.U32, 64} }
	i64 := func() *buffer { return &buffer{backend.I64, 64} }
	plane := func() backend.Plane[*buffer] {
		return backend.Plane[*buffer]{Data: &buffer{backend.Int8, 64}, Dim: 4, Scales: backend.Some(f32())}
	}
	cache := backend.CacheView[*buffer]{K: plane(), V: plane(), Blocks: 2, KVHeads: 1, BlockSize: 8}
	plain := cache
	plain.K, plain.V = backend.Plane[*buffer]{Data: f32(), Dim: 4}, backend.Plane[*buffer]{Data: f32(), Dim: 4}
	rope := backend.Rope[*buffer]{Table: backend.Some(f32()), Positions: 8, Dims: 4, Magnitude: 1}
	var p params
	p.append = backend.AppendParams[*buffer]{Cache: cache, Tokens: 2, K: backend.Dense(f32()), V: backend.Dense(f32()), Slots: i64(),
		Rope: rope, Positions: backend.Some(u32()), QHeads: 2, Q: backend.Dense(f32())}
	p.attend = backend.AttendParams[*buffer]{Cache: cache, QHeads: 2, Scale: 1, Q: backend.Dense(f32()),
		Batch: backend.Ragged[*buffer]{Seqs: 2, Tokens: 2, Table: backend.Some(u32()), TableStride: 2, ContextLens: u32(), QueryOffsets: backend.Some(u32())},
		Mask:  backend.Mask[*buffer]{ALiBi: backend.Some(f32()), SinkLogits: backend.Some(f32())},
		Out:   backend.Outputs[*buffer]{Rows: backend.Dense(f32()), LSE: backend.Some(f32()), Mass: backend.Some(f32())},
		Plan:  backend.AttendPlan{Items: 1, Mass: true}, Work: backend.Some(u32()), Workspace: backend.Some(f32())}
	p.merge = backend.MergeParams[*buffer]{Parts: 2, Tokens: 2, Heads: 2, Dim: 4, In: f32(), LSE: f32(), Out: backend.Dense(f32()), OutLSE: backend.Some(f32())}
	p.gather = backend.GatherParams[*buffer]{Cache: cache, Table: backend.Some(u32()), Len: 9, K: backend.Some(f32()), V: backend.Some(f32())}
	p.blocks = backend.CopyBlocksParams[*buffer]{Cache: cache, Mass: backend.Some(f32()), Pairs: u32(), N: 2}
	p.slots = backend.MoveSlotsParams[*buffer]{Cache: cache, Mass: backend.Some(f32()), Pairs: i64(), N: 2}
	p.convert = backend.ConvertBlocksParams[*buffer]{From: plain, To: cache, Pairs: u32(), N: 2}
	p.rotate = backend.RotateParams[*buffer]{Cache: cache, Slots: i64(), Deltas: &buffer{backend.I32, 64}, N: 2, Rope: rope}
	return p
}

type operands = Operands[*buffer, device]

// calls checks each operation of p.
var calls = map[string]func(o operands, p *params) error{
	"append":  func(o operands, p *params) error { return o.Append(&p.append) },
	"attend":  func(o operands, p *params) error { return o.Attend(&p.attend) },
	"merge":   func(o operands, p *params) error { return o.Merge(&p.merge) },
	"gather":  func(o operands, p *params) error { return o.Gather(&p.gather) },
	"blocks":  func(o operands, p *params) error { return o.CopyBlocks(&p.blocks) },
	"slots":   func(o operands, p *params) error { return o.MoveSlots(&p.slots) },
	"convert": func(o operands, p *params) error { return o.ConvertBlocks(&p.convert) },
	"rotate":  func(o operands, p *params) error { return o.Rotate(&p.rotate) },
}

// refuser owns every buffer but the n-th that it is asked about.
type refuser struct{ n *int }

func (r refuser) Owns(op, name string, _ *buffer) error {
	if *r.n--; *r.n == 0 {
		return fmt.Errorf("test: %s: %s %w", op, name, backend.ErrForeign)
	}
	return nil
}

func (refuser) Caps() backend.Caps { return caps }

// Every operand is asked for once, and the name of a foreign one is reported.
func TestEveryOperandIsAskedFor(t *testing.T) {
	cache := []string{"keys", "values", "key scales", "value scales"}
	with := func(names ...string) []string { return append(slices.Clone(cache), names...) }
	want := map[string][]string{
		"append": with("k", "v", "slots", "rope table", "positions", "q"),
		"attend": with("block table", "context lengths", "query offsets", "q", "ALiBi slopes", "sink logits", "out",
			"log-sum-exp", "attention mass", "work", "workspace"),
		"merge":   {"in", "log-sum-exp", "out", "out log-sum-exp"},
		"gather":  with("block table", "k", "v"),
		"blocks":  with("attention mass", "pairs"),
		"slots":   with("attention mass", "pairs"),
		"convert": append([]string{"keys", "values"}, with("pairs")...),
		"rotate":  with("slots", "deltas", "rope table"),
	}
	for name, call := range calls {
		var asked []string
		p := good()
		require.NoError(t, call(operands{Owner: device{asked: &asked}, Op: name}, &p), name)
		require.Equal(t, want[name], asked)
	}
	for i, name := range want["attend"] {
		n, p := i+1, good()
		o := Operands[*buffer, refuser]{Owner: refuser{&n}, Op: "attend"}
		err := o.Attend(&p.attend)
		require.ErrorIs(t, err, backend.ErrForeign)
		require.ErrorContains(t, err, "test: attend: "+name+" ")
	}
}

// What is not set is not asked for, and buffers come before shapes.
func TestOrder(t *testing.T) {
	var asked []string
	p := good()
	p.append.Cache = p.convert.From
	p.append.Rope, p.append.Positions, p.append.QHeads = backend.Rope[*buffer]{}, backend.Opt[*buffer]{}, 0
	o := operands{Owner: device{asked: &asked}, Op: "append"}
	require.NoError(t, o.Append(&p.append))
	require.Equal(t, []string{"keys", "values", "k", "v", "slots"}, asked)

	p.append.Tokens = -1
	o = operands{Owner: device{foreign: p.append.Slots}, Op: "append"}
	require.ErrorIs(t, o.Append(&p.append), backend.ErrForeign)
	o = operands{Op: "append"}
	require.ErrorIs(t, o.Append(&p.append), backend.ErrShape{})
}

func TestChecksAllocateNothing(t *testing.T) {
	p := good()
	for name, call := range calls {
		require.Zero(t, testing.AllocsPerRun(20, func() {
			if call(operands{Op: name}, &p) != nil {
				t.Fail()
			}
		}), name)
	}
}
