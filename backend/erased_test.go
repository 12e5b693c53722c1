package backend_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// named is a buffer that differs from others of its kind.
type named struct {
	otherBuffer
	id uint32
}

// recorder is a device that keeps the parameters of its last operation.
type recorder struct {
	backend.Backend[*named]
	got any
}

func (r *recorder) keep(p any) error {
	r.got = p
	return nil
}

func (r *recorder) Append(_ backend.Stream, p backend.AppendParams[*named]) error { return r.keep(p) }
func (r *recorder) Attend(_ backend.Stream, p backend.AttendParams[*named]) error { return r.keep(p) }
func (r *recorder) AttendScores(_ backend.Stream, p backend.AttendScoresParams[*named]) error {
	return r.keep(p)
}
func (r *recorder) Merge(_ backend.Stream, p backend.MergeParams[*named]) error   { return r.keep(p) }
func (r *recorder) Gather(_ backend.Stream, p backend.GatherParams[*named]) error { return r.keep(p) }
func (r *recorder) Rotate(_ backend.Stream, p backend.RotateParams[*named]) error { return r.keep(p) }
func (r *recorder) ClearScores(_ backend.Stream, p backend.ClearScoresParams[*named]) error {
	return r.keep(p)
}
func (r *recorder) CopyBlocks(_ backend.Stream, p backend.CopyBlocksParams[*named]) error {
	return r.keep(p)
}
func (r *recorder) MoveSlots(_ backend.Stream, p backend.MoveSlotsParams[*named]) error {
	return r.keep(p)
}
func (r *recorder) ConvertBlocks(_ backend.Stream, p backend.ConvertBlocksParams[*named]) error {
	return r.keep(p)
}

// operation is a method of Backend that takes parameters, in both forms.
type operation struct {
	name          string
	typed, erased reflect.Type // of its parameters
	call          func(erased reflect.Value) error
}

// operations are all that a device has.
func operations(r *recorder) (ops []operation) {
	be := reflect.ValueOf(backend.Erase[*named](r))
	contract := reflect.TypeFor[backend.Backend[*named]]()
	for i := range contract.NumMethod() {
		m := contract.Method(i)
		if m.Type.NumIn() != 2 || m.Type.In(1).Kind() != reflect.Struct {
			continue
		}
		erased := be.MethodByName(m.Name)
		ops = append(ops, operation{m.Name, m.Type.In(1), erased.Type().In(1), func(p reflect.Value) error {
			err, _ := erased.Call([]reflect.Value{reflect.Zero(erased.Type().In(0)), p})[0].Interface().(error)
			return err
		}})
	}
	return ops
}

// isOpt reports whether v is an operand that may be absent.
func isOpt(v reflect.Value) bool {
	return v.NumField() == 2 && v.Type().Field(1).Name == "Set"
}

// fill makes every field something else than zero, and some operands absent if they may be.
func fill(rng *rand.Rand, v reflect.Value, absent bool) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.ValueOf(&named{id: rng.Uint32()}))
	case reflect.Struct:
		if isOpt(v) && absent && rng.IntN(2) == 0 {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("when") == "" {
				fill(rng, v.Field(i), absent)
			}
		}
		for i := range v.NumField() {
			flag, is, ok := condition(v, i)
			if !ok {
				continue
			}
			there := !absent || rng.IntN(2) == 0
			if is != there {
				flag.SetZero()
			}
			switch {
			case there:
				fill(rng, v.Field(i), absent)
			case !is: // its numbers have a meaning still, as the dim of values in latent keys
				fill(rng, v.Field(i), absent)
				clearOperands(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(rng, v.Index(1), absent)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32:
		v.SetFloat(1 + rng.Float64())
	case reflect.Uint8:
		v.SetUint(1 + rng.Uint64N(255))
	case reflect.Uint32:
		v.SetUint(1 + rng.Uint64N(1<<31))
	default:
		v.SetInt(1 + rng.Int64N(1<<40))
	}
}

// condition is the field that says whether field i of a struct is there, and what it is where it is: not zero, or zero.
func condition(v reflect.Value, i int) (flag reflect.Value, is, ok bool) {
	when := v.Type().Field(i).Tag.Get("when")
	if when == "" {
		return flag, false, false
	}
	name, not := strings.CutPrefix(when, "!")
	return v.FieldByName(name), !not, true
}

// clearOperands makes the operands of a struct absent, and leaves its numbers.
func clearOperands(v reflect.Value) {
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer || f.Kind() == reflect.Struct {
			f.SetZero()
		}
	}
}

// erase writes typed parameters in the erased form, and calls each with the place of every operand
// that there is.
func erase(to, from reflect.Value, each func(reflect.Value)) {
	if b, ok := from.Interface().(*named); ok {
		if b != nil {
			to.Set(reflect.ValueOf(backend.Wrap(b)))
			each(to)
		}
		return
	}
	if from.Kind() != reflect.Struct || to.Type() == from.Type() {
		to.Set(from)
		return
	}
	for i := range from.NumField() {
		erase(to.Field(i), from.Field(i), each)
	}
}

// Every operation passes every field on, whichever operands it has, and looks at no others.
func TestErasedPassesAllOn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	r := &recorder{}
	ops := operations(r)
	require.Len(t, ops, 10)
	for _, op := range ops {
		for i := range 50 {
			typed, erased := reflect.New(op.typed).Elem(), reflect.New(op.erased).Elem()
			fill(rng, typed, i > 0)
			erase(erased, typed, func(reflect.Value) {})
			spoilAbsent(erased)
			r.got = nil
			require.NoError(t, op.call(erased), op.name)
			require.Equal(t, typed.Interface(), r.got, op.name)
		}
	}
}

// spoilAbsent makes operands that are absent ones of another device.
func spoilAbsent(v reflect.Value) {
	if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[backend.AnyBuffer]() {
		return
	}
	if isOpt(v) && !v.Field(1).Bool() {
		v.Field(0).Set(reflect.ValueOf(backend.Wrap(otherBuffer{})))
		return
	}
	for i := range v.NumField() {
		if flag, is, ok := condition(v, i); ok && flag.IsZero() == is {
			v.Field(i).Field(0).Set(reflect.ValueOf(backend.Wrap(otherBuffer{})))
			continue
		}
		spoilAbsent(v.Field(i))
	}
}

// Every operation reports each operand of another kind of device and each that holds no buffer,
// and does nothing.
func TestErasedOperands(t *testing.T) {
	r := &recorder{}
	for _, op := range operations(r) {
		typed, erased := reflect.New(op.typed).Elem(), reflect.New(op.erased).Elem()
		fill(rand.New(rand.NewPCG(3, 4)), typed, false)
		var operands []reflect.Value
		erase(erased, typed, func(at reflect.Value) { operands = append(operands, at) })
		require.NotEmpty(t, operands)
		r.got = nil
		for i, at := range operands {
			own := at.Interface()
			at.Set(reflect.ValueOf(backend.Wrap(otherBuffer{})))
			err := op.call(erased)
			require.ErrorIs(t, err, backend.ErrOtherDevice, "%s %d", op.name, i)
			require.True(t, strings.HasPrefix(strings.ReplaceAll(err.Error(), " ", ""), "backend:"+strings.ToLower(op.name)+":operand"), err)
			at.SetZero()
			require.ErrorIs(t, op.call(erased), backend.ErrArgument{}, "%s %d", op.name, i)
			require.ErrorContains(t, op.call(erased), "holds no buffer")
			at.Set(reflect.ValueOf(own))
		}
		require.Nil(t, r.got)
		require.NoError(t, op.call(erased))
	}
}
