package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	long  = "prefill/bf16/paged16/group=4/batch=1/context=8192/query=8192"
	short = "prefill/bf16/paged16/group=4/batch=1/context=512/query=512"
	steps = "decode/f16-int8/paged16/group=4/batch=64/context=2048"
)

var begun = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// kernels are a variant or the baseline as the fake lab has it. The zero value takes as long as the baseline.
type kernels struct {
	ratio   float64 // time over the baseline's; 0: 1
	noise   float64 // samples are off by up to this part, each way
	conform func() error
	prepare func(shape string) error
	check   func() (Check, error)
	sample  func(n int) (float64, error) // of the n-th sample, in place of what else says it
	close   func() error
}

// fake is a lab whose time passes while it works, and never else: a second for each variant that is tested, and a hundredth
// for each sample.
type fake struct {
	now    time.Time
	of     map[string]kernels
	us     map[string]float64 // the baseline's, by shape
	names  []string           // of shapes, in order
	drift  float64            // part by which each sample of the lab is slower than the one before
	noise  *rand.Rand
	calls  []string
	taken  int
	open   int
	before func(call string)
}

func newFake(of map[string]kernels) *fake {
	return &fake{now: begun, of: of, names: []string{long, short, steps}, noise: rand.New(rand.NewPCG(1, 2)),
		us: map[string]float64{long: 1500, short: 40, steps: 120}}
}

func (f *fake) call(format string, args ...any) {
	name := fmt.Sprintf(format, args...)
	f.calls = append(f.calls, name)
	if f.before != nil {
		f.before(name)
	}
}

func (f *fake) Now() time.Time { return f.now }

func (f *fake) Describe() map[string]string {
	f.call("describe")
	return map[string]string{"device": "fake", "clocks": "1980 MHz"}
}

func (f *fake) Conform(v Variant, goOn func() bool) error {
	f.call("conform %s", v.Name)
	for range 4 { // checks of a second
		if !goOn() {
			break
		}
		f.now = f.now.Add(time.Second / 4)
	}
	if c := f.of[v.Name].conform; c != nil {
		return c()
	}
	return nil
}

func (f *fake) Shapes(pattern *regexp.Regexp) (out []string) {
	for _, name := range f.names {
		if pattern.MatchString(name) {
			out = append(out, name)
		}
	}
	return out
}

func (f *fake) Prepare(variant, shape string) (Trial, error) {
	f.call("prepare %s %s", variant, shape)
	if p := f.of[variant].prepare; p != nil {
		if err := p(shape); err != nil {
			return nil, err
		}
	}
	f.open++
	return &trial{f, variant, shape, f.of[variant], 0}, nil
}

type trial struct {
	lab            *fake
	variant, shape string
	kernels
	taken int
}

func (t *trial) Check() (Check, error) {
	t.lab.call("check %s", t.variant)
	if t.check != nil {
		return t.check()
	}
	return Check{Largest: 0.004}, nil
}

func (t *trial) Sample() (float64, error) {
	t.lab.call("sample %s", t.variant)
	t.lab.now = t.lab.now.Add(10 * time.Millisecond)
	t.taken++
	t.lab.taken++
	if t.sample != nil {
		return t.sample(t.taken)
	}
	ratio := t.ratio
	if ratio == 0 {
		ratio = 1
	}
	noise := 1 + t.noise*(2*t.lab.noise.Float64()-1)
	return t.lab.us[t.shape] / 1e6 * ratio * noise * (1 + t.lab.drift*float64(t.lab.taken)), nil
}

func (t *trial) Close() error {
	t.lab.call("close %s", t.variant)
	t.lab.open--
	if t.close != nil {
		return t.close()
	}
	return nil
}

// of is a variant that is measured in the shapes that a pattern matches.
func of(name, shapes string) Variant {
	return Variant{Name: name, Folder: "variants/" + name, Shapes: shapes, Conform: "attend"}
}

// runs is a pack on a fake lab, to its end. All trials are closed.
func runs(t *testing.T, f *fake, p Pack) Results {
	t.Helper()
	if p.BudgetSeconds == 0 {
		p.BudgetSeconds = 60
	}
	out, err := Run(context.Background(), f, p, Results{}, func(Results) error { return nil }, io.Discard)
	require.NoError(t, err)
	require.Zero(t, f.open, "trials that are not closed")
	return out
}

// result is that of a variant.
func (r Results) result(t *testing.T, name string) VariantResult {
	t.Helper()
	for _, v := range r.Variants {
		if v.Name == name {
			return v
		}
	}
	require.Fail(t, "no result", name)
	return VariantResult{}
}

var errPlanted = errors.New("attend/quantized/int8/group=4: place 17 is 0.5, want 0.25")
