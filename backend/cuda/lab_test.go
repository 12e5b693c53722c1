//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/internal/bench"
	"github.com/ferrumkv/ferrumkv/internal/pack"
	"github.com/ferrumkv/ferrumkv/internal/variants"
	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
	"github.com/ferrumkv/ferrumkv/kernels/manifest"
)

// lab is the device with what is embedded, and with each variant.
type lab struct {
	t       testing.TB
	folders map[string]string // of variants
	without string            // architecture whose code is not tried: a test of its instructions failed
	least   time.Duration     // of a sample
	conform time.Duration     // that a variant is in the suite, at most
	open    map[string]*side
	wanted  map[string][]float32 // the baseline's output, by shape
}

func newLab(t testing.TB, folder string, p pack.Pack) *lab {
	l := &lab{t: t, folders: map[string]string{}, least: 4 * time.Millisecond, conform: 30 * time.Second, open: map[string]*side{}, wanted: map[string][]float32{}}
	for _, v := range p.Variants {
		l.folders[v.Name] = filepath.Join(folder, v.Folder)
	}
	return l
}

// side is the device as one of both sees it.
type side struct {
	be     *Backend
	stream *stream
	gpu    *bench.GPU[*Buffer]
	set    *cudakernels.Set // nil: the baseline's
}

// side opens the device with the kernels of a variant.
func (l *lab) side(variant string) (*side, error) {
	if s := l.open[variant]; s != nil {
		return s, nil
	}
	s := &side{}
	before := variants.Chosen()
	defer variants.Choose(before...)
	variants.Choose()
	if variant != "" {
		set, err := cudakernels.Open(os.DirFS(l.folders[variant]))
		if err != nil {
			return nil, err
		}
		if slices.Contains(set.Architectures, l.without) {
			return nil, fmt.Errorf("code for %s is not tried: its products are wrong on this device (TestDescriptors)", l.without)
		}
		variants.Choose(set)
		s.set = set
	}
	be, err := Open(0)
	if err != nil {
		return nil, err
	}
	if s.set != nil && !s.set.Runs(be.ctx.Device.Major, be.ctx.Device.Minor) {
		return nil, errors.Join(fmt.Errorf("its code is for %s, and the device has compute capability %d.%d", strings.Join(s.set.Architectures, ", "), be.ctx.Device.Major, be.ctx.Device.Minor), be.Close())
	}
	own, err := be.NewStream()
	if err != nil {
		return nil, errors.Join(err, be.Close())
	}
	s.be, s.stream = be, own.(*stream)
	s.gpu = bench.Compared(bench.Device[*Buffer]{Backend: be, Stream: own, Emulated: emulated(be), Clock: newTimer(l.t, be, s.stream).time,
		Least: l.least, Most: 32, Matrix: matrixTypes})
	l.open[variant] = s
	return s, nil
}

// close closes what is open, of a device that may be lost.
func (l *lab) close() {
	for name, s := range l.open {
		if err := s.be.Close(); !errors.Is(err, backend.ErrLost) {
			assert.NoError(l.t, err, name)
		}
	}
}

// lost says of an error that another process has to go on.
func lost(err error) error {
	if errors.Is(err, backend.ErrLost) {
		return fmt.Errorf("%w: %w", pack.ErrLost, err)
	}
	return err
}

func (l *lab) Describe() map[string]string {
	s, err := l.side("")
	require.NoError(l.t, err)
	info := s.be.Info()
	lib, _ := library() // is open
	about := map[string]string{"device": info.Device, "driver": lib.VersionString(), "units": fmt.Sprint(info.ComputeUnits), "memory": fmt.Sprint(info.TotalMemory)}
	if now := reading(l.t.Context(), s.be); now.Pace() != "" {
		about["driver"] += " " + now.Driver
		about["at rest"] = now.Pace()
	}
	measured, _ := os.ReadFile(filepath.Join(os.Getenv(resultsVariable), limitsFile)) // may be missing
	for _, l := range limitLine.FindAllSubmatch(measured, -1) {
		about["limit "+string(l[1])] = string(l[2])
	}
	return about
}

// limitsFile is what the benchmarks of limits printed into the folder of results, see scripts/run-gpu-pack, and limitLine is one of them.
const limitsFile = "limits.txt"

var limitLine = regexp.MustCompile(`(?m)^BenchmarkKernels/limit/(\S+?)(?:-\d+)?\s.*?(\S+ (?:GB|TFLOP)/s)`)

// Conform runs the checks whose names, room/check, the variant's pattern matches, with the heads and formats that its kernels
// are for, as many as there is time for.
func (l *lab) Conform(v pack.Variant, goOn func() bool) error {
	checks, err := regexp.Compile(v.Conform)
	if err != nil {
		return err
	}
	s, err := l.side(v.Name)
	if err != nil {
		return lost(err)
	}
	work := 20_000_000 // multiply-adds of a case, which the host computes, too
	if emulated(s.be) {
		work = 2_000_000
	}
	until, be := time.Now().Add(l.conform), concerned{Backend: s.be, set: s.set, launched: new(bool)}
	err = backendtest.FirstFailure[*Buffer](be, backendtest.Options{Grid: backendtest.Values, MaxWork: work}, func(room, check string) bool {
		return goOn() && checks.MatchString(room+"/"+check) && time.Now().Before(until)
	})
	switch {
	case err != nil:
		return lost(errors.Join(errors.New(plain(err)), s.stream.Sync())) // a check does not tell that the device is lost
	case !*be.launched:
		return errors.New("the checks that it passed launch none of its kernels")
	}
	return nil
}

var trace = regexp.MustCompile(`(?s)\s*Error Trace:.*?\n\s*Error:`)

// plain is what a check says, in a line and without the lines of its source.
func plain(err error) string {
	return strings.Join(strings.Fields(trace.ReplaceAllString(err.Error(), "")), " ")
}

// concerned lists the heads and formats that the kernels of a set are for, and notes that attention launched one.
type concerned struct {
	*Backend
	set      *cudakernels.Set
	launched *bool
}

func (b concerned) Attend(s backend.Stream, p backend.AttendParams[*Buffer]) error {
	err := b.Backend.Attend(s, p)
	if own, ok := s.(*stream); ok && err == nil {
		for _, c := range own.calls.List() {
			_, found := b.set.Find(c.Kernel.Symbol())
			*b.launched = *b.launched || found
		}
	}
	return err
}

func (b concerned) Caps() backend.Caps {
	caps := b.Backend.Caps()
	has := func(part string) bool {
		return slices.ContainsFunc(b.set.Kernels, func(k manifest.Kernel) bool { return strings.Contains(k.Symbol+"_", "_"+part+"_") })
	}
	heads := func(all [][2]int) [][2]int {
		return slices.DeleteFunc(slices.Clone(all), func(d [2]int) bool { return !has(fmt.Sprintf("%d_%d", d[0], d[1])) })
	}
	caps.HeadDims, caps.LatentDims = heads(caps.HeadDims), heads(caps.LatentDims)
	caps.Latent = len(caps.LatentDims) > 0
	caps.Formats = slices.DeleteFunc(slices.Clone(caps.Formats), func(f backend.Format) bool {
		stored := f.K.String()
		if f.K.Quantized() {
			stored = "quant"
		}
		return !has(f.Act.String() + "_" + stored)
	})
	return caps
}

func (l *lab) Shapes(pattern *regexp.Regexp) []string {
	s, err := l.side("")
	require.NoError(l.t, err)
	return slices.DeleteFunc(s.gpu.Names(), func(name string) bool { return !pattern.MatchString(name) })
}

func (l *lab) Prepare(variant, shape string) (pack.Trial, error) {
	s, err := l.side(variant)
	if err != nil {
		return nil, lost(err)
	}
	t := s.gpu.Named(shape)
	if t == nil {
		return nil, fmt.Errorf("no benchmark is named %q", shape)
	}
	if err := t.Prepare(); err != nil {
		if errors.Is(err, bench.ErrNothing) || errors.Is(err, backend.ErrOutOfMemory{}) {
			err = fmt.Errorf("%w: %w", pack.ErrNothing, err)
		}
		return nil, lost(errors.Join(err, t.Close()))
	}
	return &packTrial{GPUTrial: t, lab: l, side: s, shape: shape}, nil
}

func (l *lab) Now() time.Time { return time.Now() }

// packTrial is a shape on one side.
type packTrial struct {
	*bench.GPUTrial[*Buffer]
	lab   *lab
	side  *side
	shape string
}

func (t *packTrial) Sample() (float64, error) {
	err := t.GPUTrial.Sample()
	return t.Last(), lost(err)
}

func (t *packTrial) Close() error { return lost(t.GPUTrial.Close()) }

// Check compares the rows with the baseline's, whose kernels the suite compares with float64 sums: NaN in what was there
// before shows what is not written.
func (t *packTrial) Check() (pack.Check, error) {
	out, ok := t.Output()
	if !ok {
		return pack.Check{}, nil
	}
	be, s := t.side.be, t.side.stream
	if err := errors.Join(be.Fill(s, out, 0, out.Len(), math.NaN()), t.Once(), s.Sync()); err != nil {
		return pack.Check{}, lost(err)
	}
	raw := make([]byte, out.Bytes())
	if err := be.Download(s, raw, out, 0); err != nil {
		return pack.Check{}, lost(err)
	}
	rows := backendtest.Floats(out.DType(), raw)
	if t.side.set == nil {
		t.lab.wanted[t.shape] = rows
	}
	return beside(rows, t.lab.wanted[t.shape]), nil
}

// beside compares rows with those that were wanted.
func beside(rows, wanted []float32) (c pack.Check) {
	var largest, norm float64
	for i, x := range rows {
		if x != x {
			c.NaN++
			continue
		}
		largest, norm = max(largest, math.Abs(float64(x-wanted[i]))), max(norm, math.Abs(float64(wanted[i])))
	}
	c.Largest = largest / max(norm, math.SmallestNonzeroFloat64)
	return c
}
