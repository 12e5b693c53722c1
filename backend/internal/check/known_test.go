package check

import (
	"math"
	"reflect"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// leaves are the fields of a struct that hold no structs, but for buffers.
func leaves(v reflect.Value, name string, do func(name string, v reflect.Value)) {
	if _, ok := v.Interface().(*fake); ok || v.Kind() != reflect.Struct {
		do(name, v)
		return
	}
	for i := range v.NumField() {
		leaves(v.Field(i), name+"."+v.Type().Field(i).Name, do)
	}
}

// change gives a field another value.
func change(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Int:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	case reflect.Float32:
		v.SetFloat(v.Float() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Pointer: // a buffer like it
		other := *v.Interface().(*fake)
		v.Set(reflect.ValueOf(&other))
	case reflect.Slice:
		v.Set(v.Slice(0, v.Len()-1))
	default:
		require.Fail(t, "a field of another kind", v.Kind())
	}
}

// A call is asked about once. One that differs in anything is another.
func TestKnownCallsAreCheckedOnce(t *testing.T) {
	a, p, w := appendParams(i8), attendParams(i8), attendMassParams(i8)
	for op, c := range map[string]struct {
		params any
		check  func(o *Operands[*fake, asking]) error
	}{
		"append": {&a, func(o *Operands[*fake, asking]) error { return o.Append(&a) }},
		"attend": {&p, func(o *Operands[*fake, asking]) error { return o.Attend(&p) }},
		"mass":   {&w, func(o *Operands[*fake, asking]) error { return o.AttendScores(&w) }},
	} {
		known := &Known[*fake]{}
		asked := func() int {
			var list []*fake
			var names []string
			_ = c.check(&Operands[*fake, asking]{Owner: asking{asked: &list, names: &names, known: known}, Op: op})
			return len(list)
		}
		first := asked()
		require.NotZero(t, first, op)
		require.Zero(t, asked(), op)
		fields := 0
		leaves(reflect.ValueOf(c.params).Elem(), op, func(name string, v reflect.Value) {
			was := reflect.New(v.Type()).Elem()
			was.Set(v)
			change(t, v)
			require.NotZero(t, asked(), name)
			v.Set(was)
			asked()
			require.Zero(t, asked(), "%s: as it was", name)
			fields++
		})
		require.Greater(t, fields, 20, op)
		known.Forget()
		require.Equal(t, first, asked(), op)
	}
}

// What is wrong is wrong again, and is nobody's reason to ask less later.
func TestWrongCallsAreNotKnown(t *testing.T) {
	known := &Known[*fake]{}
	p := attendParams(f16)
	p.Scale = float32(math.NaN())
	for range 3 {
		o := Operands[*fake, asking]{Owner: asking{known: known}, Op: "attend"}
		require.ErrorIs(t, o.Attend(&p), backend.ErrArgument{})
		foreign := Operands[*fake, asking]{Owner: asking{known: known, foreign: p.Q.Buf}, Op: "attend"}
		require.ErrorIs(t, foreign.Attend(&p), backend.ErrOtherDevice)
	}
	require.Empty(t, known.attends.all)
}

// As many caches are remembered as a large model has layers, and never more than a bound.
func TestKnownIsBounded(t *testing.T) {
	known, model := &Known[*fake]{}, make([]backend.AppendParams[*fake], mostKnown)
	for i := range model {
		model[i] = appendParams(f16)
		known.AddAppend(&model[i])
	}
	for i := range model {
		require.True(t, known.HasAppend(&model[i]))
	}
	other := appendParams(f16)
	known.AddAppend(&other)
	require.True(t, known.HasAppend(&other))
	require.False(t, known.HasAppend(&model[0]))
	require.Len(t, known.appends.all, 1)
}

// Nobody waits for another's call: it is checked.
func TestKnownIsNotWaitedFor(t *testing.T) {
	known, p := &Known[*fake]{}, appendParams(f16)
	known.AddAppend(&p)
	known.mu.Lock()
	require.False(t, known.HasAppend(&p))
	known.AddAppend(&p)
	known.mu.Unlock()
	require.True(t, known.HasAppend(&p))

	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				p := attendParams(f16)
				o := Operands[*fake, asking]{Owner: asking{known: known}, Op: "attend"}
				for range 2 { // the second one is known, unless it was forgotten
					if o.Attend(&p) != nil {
						t.Error("a good call was refused")
					}
				}
				known.Forget()
			}
		})
	}
	all.Wait()
}

func TestKnownCallsAllocateNothing(t *testing.T) {
	known, a, p, w := &Known[*fake]{}, appendParams(i8), attendParams(i8), attendMassParams(i8)
	o := Operands[*fake, asking]{Owner: asking{known: known}, Op: "step"}
	require.Zero(t, testing.AllocsPerRun(20, func() {
		a.Tokens ^= 1 // three and two: another call each time
		if o.Append(&a) != nil || o.Attend(&p) != nil || o.AttendScores(&w) != nil {
			t.Fail()
		}
	}))
}
