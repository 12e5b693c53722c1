//go:build linux && cgo && !nocuda

package cuda

import (
	"context"
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

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/internal/bench"
	"github.com/ferrumkv/ferrumkv/internal/pack"
	"github.com/ferrumkv/ferrumkv/internal/variants"
	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
)

// TestPack runs the experiments of the pack that FERRUM_PACK names: see docs/kernels.md. It fails where they cannot
// run, and not where a variant is dropped.
func TestPack(t *testing.T) {
	path := os.Getenv("FERRUM_PACK")
	if path == "" {
		t.Skip("FERRUM_PACK names no pack")
	}
	p, err := pack.Read(path)
	require.NoError(t, err)
	l := &lab{t: t, folder: filepath.Dir(path), open: map[string]*side{}}
	defer l.close()
	ctx, stop := context.WithTimeout(t.Context(), time.Duration(p.BudgetSeconds*float64(time.Second)))
	defer stop()
	folder := os.Getenv("RESULTS")
	if folder == "" {
		folder = t.TempDir()
	}
	r, err := pack.Run(ctx, l, p, func(r pack.Results) error { return r.Write(filepath.Join(folder, "results.json")) }, os.Stdout)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "chosen"), []byte(strings.Join(append(r.Chosen, ""), "\n")), 0o644))
	fmt.Println(pack.Table(r))
}

// lab is the device with what is embedded, and with each variant.
type lab struct {
	t      testing.TB
	folder string
	open   map[string]*side
	wanted map[string][]float32 // the baseline's output, by shape
}

// side is the device as one of both sees it.
type side struct {
	be     *Backend
	stream *stream
	gpu    *bench.GPU[*Buffer]
}

// side opens the device with the kernels of a variant.
func (l *lab) side(variant string) (*side, error) {
	if s := l.open[variant]; s != nil {
		return s, nil
	}
	before := variants.Chosen()
	defer variants.Choose(before...)
	variants.Choose()
	if variant != "" {
		set, err := cudakernels.Open(os.DirFS(filepath.Join(l.folder, "variants", variant)))
		if err != nil {
			return nil, err
		}
		variants.Choose(set)
	}
	be, err := Open(0)
	if err != nil {
		return nil, err
	}
	own, err := be.NewStream()
	if err != nil {
		return nil, errors.Join(err, be.Close())
	}
	s := &side{be: be, stream: own.(*stream)}
	s.gpu = bench.Compared(bench.Device[*Buffer]{Backend: be, Stream: own, Emulated: emulated(be), Clock: newTimer(l.t, be, s.stream).time,
		Least: 4 * time.Millisecond, Most: 32, Matrix: []backend.DType{backend.F16, backend.BF16}})
	l.open[variant] = s
	return s, nil
}

func (l *lab) close() {
	for _, s := range l.open {
		require.NoError(l.t, s.be.Close())
	}
}

func (l *lab) Describe() map[string]string {
	s, err := l.side("")
	if err != nil {
		return map[string]string{"device": err.Error()}
	}
	info := s.be.Info()
	return map[string]string{"device": info.Device, "units": fmt.Sprint(info.ComputeUnits), "memory": fmt.Sprint(info.TotalMemory)}
}

func (l *lab) Conform(v pack.Variant) error {
	rooms, err := regexp.Compile("^(?:" + v.Conform + ")$")
	if err != nil {
		return err
	}
	s, err := l.side(v.Name)
	if err != nil {
		return err
	}
	work := 20_000_000
	if emulated(s.be) {
		work = 300_000
	}
	return backendtest.FirstFailure[*Buffer](wideOnly{s.be}, backendtest.Options{Grid: backendtest.Values, MaxWork: work}, rooms.MatchString)
}

func (l *lab) Shapes(pattern *regexp.Regexp) []string {
	s, err := l.side("")
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(s.gpu.Names(), func(name string) bool { return !pattern.MatchString(name) })
}

func (l *lab) Prepare(variant, shape string) (pack.Trial, error) {
	s, err := l.side(variant)
	if err != nil {
		return nil, err
	}
	t := s.gpu.Named(shape)
	if t == nil {
		return nil, fmt.Errorf("no benchmark is named %q", shape)
	}
	if err := t.Prepare(); err != nil {
		if errors.Is(err, bench.ErrNothing) || errors.Is(err, backend.ErrOutOfMemory{}) {
			err = fmt.Errorf("%w: %w", pack.ErrNothing, err)
		}
		return nil, errors.Join(err, t.Close())
	}
	return &packTrial{lab: l, side: s, shape: shape, baseline: variant == "", GPUTrial: t}, nil
}

func (l *lab) Now() time.Time { return time.Now() }

// packTrial is a shape on one side.
type packTrial struct {
	*bench.GPUTrial[*Buffer]
	lab      *lab
	side     *side
	shape    string
	baseline bool
}

func (t *packTrial) Sample() (float64, error) {
	err := t.GPUTrial.Sample()
	return t.Last(), err
}

// Check compares the rows with the baseline's, whose kernels the suite compares with float64 sums: NaN in what was there
// before shows what is not written.
func (t *packTrial) Check() (c pack.Check, err error) {
	out, ok := t.Output()
	if !ok {
		return c, nil
	}
	be, s := t.side.be, t.side.stream
	if err := errors.Join(be.Fill(s, out, 0, out.Len(), math.NaN()), t.Once(), s.Sync()); err != nil {
		return c, err
	}
	raw := make([]byte, out.Bytes())
	if err := be.Download(s, raw, out, 0); err != nil {
		return c, err
	}
	rows := backendtest.Floats(out.DType(), raw)
	if t.baseline {
		if t.lab.wanted == nil {
			t.lab.wanted = map[string][]float32{}
		}
		t.lab.wanted[t.shape] = rows
	}
	want := t.lab.wanted[t.shape]
	var largest, norm float64
	for i, x := range rows {
		if x != x {
			c.NaN++
			continue
		}
		largest, norm = max(largest, math.Abs(float64(x-want[i]))), max(norm, math.Abs(float64(want[i])))
	}
	c.Largest = largest / max(norm, math.SmallestNonzeroFloat64)
	return c, nil
}
