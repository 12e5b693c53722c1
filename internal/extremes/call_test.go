package extremes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

const (
	mostBytes = 64 << 20 // that a call may allocate, whatever it is asked for
	mostTime  = time.Minute
	draws     = 30 // calls of a function beyond those that change one argument
)

var only = flag.String("only", "", "part of the names of the functions to call")

// Every function and method returns whatever its arguments, in time and without much memory; an error is one of the
// library's types; and existing objects work as before.
func TestExtremes(t *testing.T) {
	t.Chdir(t.TempDir()) // for arguments that name files
	for _, name := range []string{"FERRUM_KV_HOST_BYTES", "FERRUM_KV_DISK_DIR"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	r := &run{t: t, world: newWorld(t), failures: map[string]int{}}
	defer r.watch()()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		if strings.Contains(name, *only) {
			r.all(name, reflect.ValueOf(functions[name]), nil)
		}
	}
	for _, of := range types {
		for m := range reflect.PointerTo(of).NumMethod() {
			method := reflect.PointerTo(of).Method(m)
			if name := short(of) + "." + method.Name; strings.Contains(name, *only) {
				r.all(name, method.Func, of)
			}
		}
	}
	r.world.close()
	t.Logf("%d calls", r.calls.Load())
}

// run is the calls of all functions.
type run struct {
	t        *testing.T
	world    *world
	failures map[string]int
	calls    atomic.Int64
	now      atomic.Pointer[string] // the call in progress
}

// watch ends the program when a call does not return.
func (r *run) watch() (stop func()) {
	done := make(chan struct{})
	go func() {
		for before := int64(-1); ; {
			select {
			case <-done:
				return
			case <-time.After(mostTime):
				if n := r.calls.Load(); n == before {
					panic("does not return: " + *r.now.Load())
				} else {
					before = n
				}
			}
		}
	}()
	return func() { close(done) }
}

// all calls a function with each value of each argument, the others being ordinary, and with random values of
// all arguments. The first argument of a method is its receiver, which is not nil.
func (r *run) all(name string, fn reflect.Value, receiver reflect.Type) {
	rng := rand.New(rand.NewPCG(1, uint64(len(name))))
	var choices [][]value
	for i := range fn.Type().NumIn() {
		in := fn.Type().In(i)
		if fn.Type().IsVariadic() && i == fn.Type().NumIn()-1 {
			in = reflect.SliceOf(in.Elem())
		}
		of := values(in, rng, 0)
		if i == 0 && receiver != nil {
			of = slices.DeleteFunc(slices.Clone(of), func(v value) bool { return v.label == "nil" })
		}
		choices = append(choices, of)
	}
	args := make([]value, len(choices))
	plain := func() {
		for i := range choices {
			args[i] = choices[i][0]
		}
	}
	plain()
	r.call(name, fn, args)
	for i := range choices {
		for _, v := range choices[i][1:] {
			plain()
			args[i] = v
			r.call(name, fn, args)
		}
	}
	if len(choices) < 2 {
		return
	}
	for range draws {
		for i := range choices {
			args[i] = choices[i][0]
			if rng.IntN(3) > 0 {
				args[i] = choices[i][rng.IntN(len(choices[i]))]
			}
		}
		r.call(name, fn, args)
	}
}

// call calls a function once.
func (r *run) call(name string, fn reflect.Value, args []value) {
	if r.failures[name] > 2 {
		return
	}
	labels := make([]string, len(args))
	in := make([]reflect.Value, len(args))
	for i, a := range args {
		labels[i] = a.label
	}
	text := name + "(" + strings.Join(labels, ", ") + ")"
	r.now.Store(&text)
	r.calls.Add(1)
	if why := expected(name, labels); why != "" {
		return
	}
	for i, a := range args {
		in[i] = a.make(r.world)
	}
	fail := func(format string, args ...any) {
		r.failures[name]++
		r.t.Errorf("%s: %s", text, fmt.Sprintf(format, args...))
	}
	broken := damage(in)
	before := allocated()
	results, panicked := guard(fn, in)
	if panicked != "" && !strings.HasPrefix(name, "backend/quant.") { // which checks no sizes, as its comment says
		fail("panics: %s", panicked)
	}
	if n := allocated() - before; n > mostBytes && !race.Enabled { // there the device's memory is Go's, too
		fail("allocates %d bytes", n)
	}
	for _, result := range results {
		if err, ok := result.Interface().(error); ok && result.Type() == of[error]() && !typed(err) {
			fail("returns an untyped error: %v (%T)", err, err)
		}
	}
	if err := damage(in); err != nil && broken == nil && !errors.Is(err, backend.ErrClosed) {
		fail("leaves %v", err)
	}
	r.world.tidy(results)
	if err := r.world.check(r.calls.Load()%8 == 0); err != nil {
		if !strings.HasSuffix(name, ".Close") {
			fail("breaks existing objects: %v", err)
		}
		r.world = newWorld(r.t)
	}
}

// damage is what a call's receiver reports about itself.
func damage(in []reflect.Value) error {
	if len(in) == 0 || in[0].Kind() != reflect.Pointer || in[0].IsNil() {
		return nil
	}
	if c, ok := in[0].Interface().(interface{ Check() error }); ok {
		return c.Check()
	}
	return nil
}

func guard(fn reflect.Value, in []reflect.Value) (results []reflect.Value, panicked string) {
	defer func() {
		if p := recover(); p != nil {
			panicked = fmt.Sprintf("%v\n%s", p, where(string(debug.Stack())))
		}
	}()
	if fn.Type().IsVariadic() {
		return fn.CallSlice(in), ""
	}
	return fn.Call(in), ""
}

// where is the lines of a stack between the panic and this test.
func where(stack string) string {
	_, stack, _ = strings.Cut(stack, "panic(")
	stack, _, _ = strings.Cut(stack, "reflect.Value.call")
	lines := strings.Split(stack, "\n")
	return strings.Join(lines[min(2, len(lines)):min(14, len(lines))], "\n")
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// typed reports whether an error is, or wraps, one that a program can identify: an exported type or variable
// of the library, the end of a context, or an error of the system or an argument.
func typed(err error) bool {
	if err == nil {
		return true
	}
	of := reflect.TypeOf(err)
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if slices.Contains(types, of) { // has all exported ones, or TestNothingIsLeftOut fails
		return true
	}
	for _, known := range sentinels {
		if err == known {
			return true
		}
	}
	var path *fs.PathError
	var link *os.LinkError
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errGiven) || errors.Is(err, io.EOF) || errors.As(err, &path) || errors.As(err, &link) {
		return true
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return err.Unwrap() != nil && typed(err.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(err.Unwrap(), typed)
	}
	return false
}
