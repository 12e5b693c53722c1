package check

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// asking is a device that owns every buffer but one, and writes down what it was asked.
type asking struct {
	foreign *fake
	asked   *[]*fake
	names   *[]string
	known   *Known[*fake]
}

func (d asking) Owns(op, name string, b *fake) error {
	if d.asked != nil {
		*d.asked, *d.names = append(*d.asked, b), append(*d.names, name)
	}
	if b == d.foreign {
		return fmt.Errorf("test: %s: %s %w", op, name, backend.ErrOtherDevice)
	}
	return nil
}

func (asking) Caps() *backend.Caps { return &caps }

func (d asking) Known() *Known[*fake] { return d.known }

// checked is a call of an operation that is checked.
type checked struct {
	params any // a pointer
	check  func(o *Operands[*fake, asking]) error
	want   []string // names of the operands
}

// checkedCalls is a valid call of every operation with every operand.
func checkedCalls() map[string]checked {
	cache := []string{"keys", "key scales", "values", "value scales"}
	with := func(names ...string) []string { return append(slices.Clone(cache), names...) }
	a, t, m, g := appendParams(i8), attendParams(i8), mergeParams(), gatherParams(i8)
	w := attendMassParams(i8)
	b, s, c, r, z := copyParams(i8), moveParams(i8), convertParams(), rotateParams(i8), clearParams()
	return map[string]checked{
		"append": {&a, func(o *Operands[*fake, asking]) error { return o.Append(&a) }, with("k", "v", "slots", "rope table", "positions", "q")},
		"attend": {&t, func(o *Operands[*fake, asking]) error { return o.Attend(&t) }, with("block table", "context lengths", "query offsets", "views", "tree",
			"q", "ALiBi slopes", "sink logits", "out", "log-sum-exp", "attention scores", "work", "workspace")},
		"attend scores": {&w, func(o *Operands[*fake, asking]) error { return o.AttendScores(&w) }, with("block table", "context lengths", "query offsets", "views", "tree",
			"q", "ALiBi slopes", "sink logits", "log-sum-exp", "attention scores", "work")},
		"merge":          {&m, func(o *Operands[*fake, asking]) error { return o.Merge(&m) }, []string{"in", "log-sum-exp", "out", "out log-sum-exp"}},
		"gather":         {&g, func(o *Operands[*fake, asking]) error { return o.Gather(&g) }, with("block table", "k", "v", "cache scores", "scores")},
		"clear scores":   {&z, func(o *Operands[*fake, asking]) error { return o.ClearScores(&z) }, []string{"attention scores", "slots"}},
		"copy blocks":    {&b, func(o *Operands[*fake, asking]) error { return o.CopyBlocks(&b) }, with(append(slices.Clone(cache), "from scores", "to scores", "pairs")...)},
		"move slots":     {&s, func(o *Operands[*fake, asking]) error { return o.MoveSlots(&s) }, with("attention scores", "pairs")},
		"convert blocks": {&c, func(o *Operands[*fake, asking]) error { return o.ConvertBlocks(&c) }, append([]string{"keys", "values"}, with("from scores", "to scores", "pairs")...)},
		"rotate":         {&r, func(o *Operands[*fake, asking]) error { return o.Rotate(&r) }, with("slots", "deltas", "rope table")},
	}
}

// fakes are the buffers in parameters, in the order of their fields. All operands are there
// but the scales of what is not quantized.
func fakes(t *testing.T, v reflect.Value) (all []*fake) {
	if b, ok := v.Interface().(*fake); ok {
		return []*fake{b}
	}
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if o, ok := v.Field(i).Interface().(backend.Opt[*fake]); ok && !o.Set {
				require.Equal(t, "Scales", name, "%s of a good call is not set", name)
				continue
			}
			all = append(all, fakes(t, v.Field(i))...)
		}
	}
	return all
}

// An operand without elements does not fit, whichever it is.
func TestEveryOperandHasToFit(t *testing.T) {
	for op, c := range checkedCalls() {
		o := Operands[*fake, asking]{Op: op}
		for i, b := range fakes(t, reflect.ValueOf(c.params).Elem()) {
			was := b.n
			require.NoError(t, c.check(&o))
			b.n = 0
			require.ErrorIs(t, c.check(&o), backend.ErrArgument{}, "%s of %s", c.want[i], op)
			b.n = was
		}
	}
}

// Every buffer in the parameters is asked for once, in the order of their fields, and the name
// of a foreign one is reported.
func TestEveryOperandIsAskedFor(t *testing.T) {
	for op, c := range checkedCalls() {
		all := fakes(t, reflect.ValueOf(c.params).Elem())
		var asked []*fake
		var names []string
		require.NoError(t, c.check(&Operands[*fake, asking]{Owner: asking{asked: &asked, names: &names}, Op: op}), op)
		require.Equal(t, c.want, names)
		require.Len(t, asked, len(all), op)
		for i, b := range all {
			require.Same(t, b, asked[i], "%s of %s", names[i], op)
			err := c.check(&Operands[*fake, asking]{Owner: asking{foreign: b}, Op: op})
			require.ErrorIs(t, err, backend.ErrOtherDevice)
			require.EqualError(t, err, fmt.Sprintf("test: %s: %s %v", op, names[i], backend.ErrOtherDevice))
		}
	}
}

// What is not set is not asked for, and buffers come before shapes.
func TestOrder(t *testing.T) {
	p := appendParams(f16)
	p.Rotary, p.Positions, p.QHeads = backend.RotaryTable[*fake]{}, backend.Opt[*fake]{}, 0
	var asked []*fake
	var names []string
	o := Operands[*fake, asking]{Owner: asking{asked: &asked, names: &names}, Op: "append"}
	require.NoError(t, o.Append(&p))
	require.Equal(t, []string{"keys", "values", "k", "v", "slots"}, names)

	p.Tokens = -1
	o = Operands[*fake, asking]{Owner: asking{foreign: p.Slots}, Op: "append"}
	require.ErrorIs(t, o.Append(&p), backend.ErrOtherDevice)
	o = Operands[*fake, asking]{Op: "append"}
	require.ErrorIs(t, o.Append(&p), backend.ErrArgument{})
}

func TestOperandsAllocateNothing(t *testing.T) {
	for op, c := range checkedCalls() {
		o := Operands[*fake, asking]{Op: op}
		require.Zero(t, testing.AllocsPerRun(20, func() {
			if c.check(&o) != nil {
				t.Fail()
			}
		}), op)
	}
}
