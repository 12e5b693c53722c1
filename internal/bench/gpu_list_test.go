package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// buffer is no memory.
type buffer struct {
	dt backend.DType
	n  int
}

func (b *buffer) Len() int             { return b.n }
func (b *buffer) DType() backend.DType { return b.dt }
func (b *buffer) Bytes() int64         { return int64(sizeOf(b.dt, b.n)) }

// recorder is a device without memory that records which of it operations use.
type recorder struct {
	backend.Backend[*buffer]
	allocated int64
	used      map[string]map[spot]int64 // by operand: bytes at a spot
}

// spot is where an operand starts.
type spot struct {
	buf    *buffer
	offset int
}

// Caps are the formats of all steps.
func (d *recorder) Caps() (c backend.Caps) {
	for _, s := range steps() {
		c.Formats = append(c.Formats, s.format())
	}
	return c
}

func (d *recorder) Alloc(dt backend.DType, n int) (*buffer, error) {
	b := &buffer{dt, n}
	d.allocated += b.Bytes()
	return b, nil
}

func (d *recorder) Free(*buffer) error { return nil }
func (d *recorder) Upload(_ backend.Stream, b *buffer, off int, data []byte) error {
	if len(data) > 0 { // none is a question whether there is such a buffer
		d.use("uploaded", b, off, len(data)*8/b.DType().Bits())
	}
	return nil
}
func (d *recorder) Download(_ backend.Stream, data []byte, b *buffer, off int) error {
	d.use("downloaded", b, off, len(data)*8/b.DType().Bits())
	return nil
}
func (d *recorder) Copy(backend.Stream, *buffer, int, *buffer, int, int) error {
	return nil
}
func (d *recorder) Fill(_ backend.Stream, b *buffer, _, n int, _ float64) error {
	d.use("filled", b, 0, n)
	return nil
}
func (d *recorder) PlanAttend(backend.AttendShape) (backend.AttendPlan, error) {
	return backend.AttendPlan{}, nil
}

// use is n elements that an operand has.
func (d *recorder) use(operand string, b *buffer, offset, n int) {
	if d.used[operand] == nil {
		d.used[operand] = map[spot]int64{}
	}
	size, _ := b.DType().Size(n)
	d.used[operand][spot{b, offset}] = size
}

func (d *recorder) layer(operand string, v backend.CacheView[*buffer]) {
	d.use(operand, v.K.Data, 0, v.K.Data.Len())
	if !v.Latent { // else values are in the keys
		d.use(operand, v.V.Data, 0, v.V.Data.Len())
	}
}

func (d *recorder) Append(_ backend.Stream, p backend.AppendParams[*buffer]) error {
	d.layer("cache", p.Cache)
	d.use("fresh", p.K.Buf, p.K.Offset, p.Tokens*llama.width())
	d.use("fresh", p.V.Buf, p.V.Offset, p.Tokens*llama.width())
	return nil
}

func (d *recorder) Attend(_ backend.Stream, p backend.AttendParams[*buffer]) error {
	d.layer("cache", p.Cache)
	return nil
}

func (d *recorder) Merge(_ backend.Stream, p backend.MergeParams[*buffer]) error {
	d.use("parts", p.In, 0, p.In.Len())
	d.use("merged", p.Out.Buf, p.Out.Offset, p.Out.Buf.Len())
	return nil
}

func (d *recorder) Gather(_ backend.Stream, p backend.GatherParams[*buffer]) error {
	d.layer("cache", p.Cache)
	d.use("piece", p.K.Buf, 0, p.K.Buf.Len())
	d.use("piece", p.V.Buf, 0, p.V.Buf.Len())
	return nil
}

func (d *recorder) CopyBlocks(_ backend.Stream, p backend.CopyBlocksParams[*buffer]) error {
	d.layer("cache", p.From)
	return nil
}

func (d *recorder) MoveSlots(_ backend.Stream, p backend.MoveSlotsParams[*buffer]) error {
	d.layer("cache", p.Cache)
	return nil
}

func (d *recorder) ConvertBlocks(_ backend.Stream, p backend.ConvertBlocksParams[*buffer]) error {
	d.layer("from", p.From)
	d.layer("to", p.To)
	return nil
}

func (d *recorder) Rotate(_ backend.Stream, p backend.RotateParams[*buffer]) error {
	d.use("keys", p.Cache.K.Data, 0, p.Cache.K.Data.Len())
	return nil
}

// recorded is a GPU that is a recorder.
func recorded() (*GPU[*buffer], *recorder) {
	d := &recorder{}
	host := func(*buffer, backend.HostMemory, bool) error { return nil }
	return &GPU[*buffer]{Device: Device[*buffer]{Backend: d, Host: host}}, d
}

// No call finds what it moves in the cache of an H100, of 50 MB: between two uses of a byte
// at least twice as many others are used.
func TestNothingIsCached(t *testing.T) {
	const cached, most = 50e6, 4 << 30
	g, d := recorded()
	all := g.list()
	require.Less(t, len(all), 180, "a second each and some for its memory: five minutes")
	for _, c := range all {
		if strings.HasPrefix(c.Name, merge) {
			continue // finds its parts where the step leaves them
		}
		d.allocated, d.used = 0, map[string]map[spot]int64{}
		op, err := c.set(g.memory(), ring[*buffer]{g.memory(), g.turns})
		require.NoError(t, err, c.Name)
		d.used = map[string]map[spot]int64{}
		for turn := range 3000 {
			require.NoError(t, op.call(turn))
		}
		require.NotEmpty(t, d.used, c.Name)
		for operand, spots := range d.used {
			var bytes int64
			for _, n := range spots {
				bytes += n
			}
			require.Greater(t, float64(bytes), 2*cached, "%s: %s", c.Name, operand)
		}
		require.Less(t, d.allocated, int64(most), c.Name)
	}
}

// Blocks go to the host and come back, and their memory is given back; without that there is nothing of it.
func TestHostedBlocks(t *testing.T) {
	be, err := cpu.Open(cpu.Options{Threads: 1})
	require.NoError(t, err)
	defer be.Close()
	s, err := be.NewStream()
	require.NoError(t, err)
	g := &GPU[*cpu.Buffer]{Device: Device[*cpu.Buffer]{Backend: be, Stream: s, Clock: HostClock(s), Emulated: true}}
	require.Empty(t, g.hosted())
	g.Host = func(*cpu.Buffer, backend.HostMemory, bool) error { return nil }
	mem := g.memory()
	require.NoError(t, g.measureHost(mem))
	require.Empty(t, g.limits.host, "a CPU pins nothing")
	require.NoError(t, mem.close())
	for _, trial := range g.hosted() {
		require.NoError(t, trial.Prepare())
		require.NoError(t, trial.Sample())
		require.Positive(t, trial.Metrics()["GB/s"])
		require.NotContains(t, trial.Metrics(), "of-limit")
		require.NoError(t, trial.Close())
		require.Zero(t, be.Info().Buffers)
	}
	once := func(k bound, rate float64) limit {
		return limit{does: work{bytes: rate, bound: k}, times: []float64{1}}
	}
	g.limits.host, g.Emulated = []limit{once(toHost, 4e9), once(toDevice, 2e9)}, false
	trial := GPUTrial[*cpu.Buffer]{gpu: g, work: work{bytes: 1e9, bound: toDevice}, times: []float64{1}}
	require.Equal(t, 0.5, trial.Metrics()["of-limit"])
	trial.work.bound = toHost
	require.Equal(t, 0.25, trial.Metrics()["of-limit"])
}

// Names are unique.
func TestNames(t *testing.T) {
	g, _ := recorded()
	names := map[string]bool{}
	for _, c := range g.list() {
		require.False(t, names[c.Name], c.Name)
		require.NotRegexp(t, `-\d+$`, c.Name, "the end would be taken for GOMAXPROCS")
		names[c.Name] = true
	}
}
