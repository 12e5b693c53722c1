package extremes

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"
)

// value makes a new argument for each call, and names it.
type value struct {
	label string
	make  func(w *world) reflect.Value
}

func plain(label string, v any) value {
	return value{label, func(*world) reflect.Value { return reflect.ValueOf(v) }}
}

var (
	integers = []int64{1, 0, -1, 2, 64, 1 << 20, 1 << 31, 1 << 40, math.MaxInt64, math.MinInt64, math.MinInt32}
	unsigned = []uint64{1, 0, 2, 255, 1 << 15, 1 << 31, math.MaxUint32, 1 << 40, math.MaxUint64}
	floats   = []float64{1, 0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat32, math.MaxFloat64, math.SmallestNonzeroFloat64}
	texts    = []string{"x", "", "cpu", "lru", "f16", "paged", "8GiB", "\x00\xff", "a/../b", "/dev/null/x", strings.Repeat("long ", 1<<12), "99999999999999999999"}
)

// values are the possible arguments of a type; the first is an ordinary one.
func values(t reflect.Type, rng *rand.Rand, depth int) (out []value) {
	if known := given(t); known != nil {
		return known
	}
	zero := value{"zero", func(*world) reflect.Value { return reflect.Zero(t) }}
	add := func(label string, v any) {
		if of := reflect.ValueOf(v); of.CanConvert(t) {
			out = append(out, value{label, func(*world) reflect.Value { return of.Convert(t) }})
		}
	}
	switch t.Kind() {
	case reflect.Bool:
		add("false", false)
		add("true", true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		for _, n := range integers {
			if v := reflect.ValueOf(n).Convert(t); v.Int() == n {
				add(fmt.Sprint(n), n)
			}
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		for _, n := range unsigned {
			if v := reflect.ValueOf(n).Convert(t); v.Uint() == n {
				add(fmt.Sprint(n), n)
			}
		}
	case reflect.Float32, reflect.Float64:
		for _, x := range floats {
			add(fmt.Sprint(x), x)
		}
	case reflect.String:
		for _, s := range texts {
			add(fmt.Sprintf("%.20q", s), s)
		}
	case reflect.Slice:
		out = slicesOf(t, rng, depth)
	case reflect.Array:
		out = []value{zero, filled(t, rng, depth)}
	case reflect.Struct:
		out = structs(t, zero, rng, depth)
	case reflect.Pointer:
		for _, v := range values(t.Elem(), rng, depth+1) {
			out = append(out, value{"&" + v.label, func(w *world) reflect.Value {
				p := reflect.New(t.Elem())
				p.Elem().Set(v.make(w))
				return p
			}})
		}
		out = append(out, value{"nil", zero.make})
	case reflect.Func:
		out = []value{{"func", func(w *world) reflect.Value { return answers(t, w, rng) }}, {"nil", zero.make}}
	default: // interfaces that the test has no values of, channels
		out = []value{{"nil", zero.make}}
	}
	return out
}

// answers is a function that returns zeros, or ordinary values.
func answers(t reflect.Type, w *world, rng *rand.Rand) reflect.Value {
	var results []reflect.Value
	for i := range t.NumOut() {
		of := values(t.Out(i), rng, 3)
		results = append(results, of[0].make(w))
		if t.Out(i).Kind() == reflect.Interface {
			results[i] = reflect.Zero(t.Out(i))
		}
	}
	return reflect.MakeFunc(t, func([]reflect.Value) []reflect.Value { return results })
}

// slicesOf are slices of several lengths, of ordinary and of any values.
func slicesOf(t reflect.Type, rng *rand.Rand, depth int) []value {
	elems := values(t.Elem(), rng, depth+1)
	some := func(n int, first bool) value {
		var picked []value
		var labels []string
		for range n {
			v := elems[0]
			if !first {
				v = elems[rng.IntN(len(elems))]
			}
			picked = append(picked, v)
			labels = append(labels, v.label)
		}
		return value{fmt.Sprintf("[%d: %.120s]", n, strings.Join(labels, " ")), func(w *world) reflect.Value {
			s := reflect.MakeSlice(t, n, n)
			for i, v := range picked {
				s.Index(i).Set(v.make(w))
			}
			return s
		}}
	}
	out := []value{some(3, true), {"nil", func(*world) reflect.Value { return reflect.Zero(t) }},
		{"empty", func(*world) reflect.Value { return reflect.MakeSlice(t, 0, 0) }}, some(1, true), some(4, true)}
	if depth < 3 {
		out = append(out, some(64, true), some(300, true))
		for n := range 8 {
			out = append(out, some(1+n, false))
		}
	}
	for _, v := range elems[1:min(len(elems), 24)] { // one that differs from the others
		out = append(out, value{"[… " + v.label + "]", func(w *world) reflect.Value {
			s := reflect.MakeSlice(t, 3, 3)
			for i := range 2 {
				s.Index(i).Set(elems[0].make(w))
			}
			s.Index(2).Set(v.make(w))
			return s
		}})
	}
	return out
}

// filled is an array of any values.
func filled(t reflect.Type, rng *rand.Rand, depth int) value {
	elems := values(t.Elem(), rng, depth+1)
	return value{"filled", func(w *world) reflect.Value {
		a := reflect.New(t).Elem()
		for i := range t.Len() {
			a.Index(i).Set(elems[rng.IntN(len(elems))].make(w))
		}
		return a
	}}
}

// structs are ordinary or zero, with one or all fields changed.
func structs(t reflect.Type, zero value, rng *rand.Rand, depth int) []value {
	base, out := zero, []value{zero}
	if known := meant(t); known != nil {
		base = value{"meant", known}
		out = []value{base, zero}
	}
	if depth > 3 {
		return out
	}
	var fields []int
	of := map[int][]value{}
	for i := range t.NumField() {
		if t.Field(i).IsExported() {
			fields = append(fields, i)
			of[i] = values(t.Field(i).Type, rng, depth+1)
		}
	}
	for _, i := range fields {
		for _, v := range of[i][:min(len(of[i]), 40)] {
			out = append(out, value{fmt.Sprintf("{%s: %s}", t.Field(i).Name, v.label), func(w *world) reflect.Value {
				s := reflect.New(t).Elem()
				s.Set(base.make(w))
				s.Field(i).Set(v.make(w))
				return s
			}})
		}
	}
	for range min(6*len(fields), 24) {
		picked := map[int]value{}
		var labels []string
		for _, i := range fields {
			if rng.IntN(2) == 0 {
				picked[i] = of[i][rng.IntN(len(of[i]))]
				labels = append(labels, t.Field(i).Name+": "+picked[i].label)
			}
		}
		out = append(out, value{fmt.Sprintf("{%.400s}", strings.Join(labels, ", ")), func(w *world) reflect.Value {
			s := reflect.New(t).Elem()
			s.Set(base.make(w))
			for i, v := range picked {
				s.Field(i).Set(v.make(w))
			}
			return s
		}})
	}
	return out
}

// errGiven is the error of arguments that fail.
var errGiven = fmt.Errorf("the argument's own error")

type fails struct{}

func (fails) Read([]byte) (int, error)  { return 0, errGiven }
func (fails) Write([]byte) (int, error) { return 0, errGiven }

func boxed[T any](label string, make func(w *world) T) value {
	return value{label, func(w *world) reflect.Value {
		v := reflect.New(of[T]()).Elem()
		if made := reflect.ValueOf(make(w)); made.IsValid() {
			v.Set(made)
		}
		return v
	}}
}

// general are values of types outside the library.
func general(t reflect.Type) []value {
	switch t {
	case of[context.Context]():
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		return []value{boxed("background", func(*world) context.Context { return context.Background() }), boxed("ended", func(*world) context.Context { return ended })}
	case of[io.Reader]():
		return []value{boxed("saved", func(w *world) io.Reader { return strings.NewReader(w.saved) }), boxed("nil", func(*world) io.Reader { return nil }),
			boxed("empty", func(*world) io.Reader { return strings.NewReader("") }), boxed("fails", func(*world) io.Reader { return fails{} }),
			boxed("torn", func(w *world) io.Reader { return strings.NewReader(w.saved[:len(w.saved)/2]) }),
			boxed("garbage", func(*world) io.Reader { return strings.NewReader(strings.Repeat("\xff", 1<<12)) })}
	case of[io.Writer]():
		return []value{boxed("discard", func(*world) io.Writer { return io.Discard }), boxed("nil", func(*world) io.Writer { return nil }), boxed("fails", func(*world) io.Writer { return fails{} })}
	case of[error]():
		return []value{boxed("EOF", func(*world) error { return io.EOF }), boxed("nil", func(*world) error { return nil })}
	case of[time.Time]():
		return []value{plain("now", time.Now()), plain("never", time.Time{}), plain("far", time.Unix(1<<60, 0)), plain("before", time.Unix(-1<<60, 0))}
	}
	return nil
}
