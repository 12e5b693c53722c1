package gpubench

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// recorder is a device without memory that records which of it operations use.
type recorder struct {
	backend.Backend[*device.Buffer]
	allocated int64
	used      map[string]map[spot]int64 // by operand: bytes at a spot
}

// spot is where an operand starts.
type spot struct {
	buf    *device.Buffer
	offset int
}

func (d *recorder) Caps() backend.Caps { return backend.Caps{Formats: launch.Formats} }

func (d *recorder) Alloc(dt backend.DType, n int) (*device.Buffer, error) {
	size, _ := dt.Size(n)
	b := device.NewBuffer(dt, n, int(size), launch.Place{}, false)
	d.allocated += size
	return &b, nil
}

func (d *recorder) Free(*device.Buffer) error { return nil }
func (d *recorder) Upload(backend.Stream, *device.Buffer, int, []byte) error {
	return nil
}
func (d *recorder) Copy(backend.Stream, *device.Buffer, int, *device.Buffer, int, int) error {
	return nil
}
func (d *recorder) Fill(_ backend.Stream, b *device.Buffer, _, n int, _ float64) error {
	d.use("filled", b, 0, n)
	return nil
}
func (d *recorder) PlanAttend(backend.AttendShape) (backend.AttendPlan, error) {
	return backend.AttendPlan{}, nil
}

// use is n elements that an operand has.
func (d *recorder) use(operand string, b *device.Buffer, offset, n int) {
	if d.used[operand] == nil {
		d.used[operand] = map[spot]int64{}
	}
	size, _ := b.DType().Size(n)
	d.used[operand][spot{b, offset}] = size
}

func (d *recorder) layer(operand string, v backend.CacheView[*device.Buffer]) {
	d.use(operand, v.K.Data, 0, v.K.Data.Len())
	d.use(operand, v.V.Data, 0, v.V.Data.Len())
}

func (d *recorder) Append(_ backend.Stream, p backend.AppendParams[*device.Buffer]) error {
	d.layer("cache", p.Cache)
	d.use("fresh", p.K.Buf, p.K.Offset, p.Tokens*width)
	d.use("fresh", p.V.Buf, p.V.Offset, p.Tokens*width)
	return nil
}

func (d *recorder) Attend(_ backend.Stream, p backend.AttendParams[*device.Buffer]) error {
	d.layer("cache", p.Cache)
	return nil
}

func (d *recorder) Merge(_ backend.Stream, p backend.MergeParams[*device.Buffer]) error {
	d.use("parts", p.In, 0, p.In.Len())
	return nil
}

func (d *recorder) Gather(_ backend.Stream, p backend.GatherParams[*device.Buffer]) error {
	d.layer("cache", p.Cache)
	d.use("piece", p.K.Buf, 0, p.K.Buf.Len())
	d.use("piece", p.V.Buf, 0, p.V.Buf.Len())
	return nil
}

func (d *recorder) CopyBlocks(_ backend.Stream, p backend.CopyBlocksParams[*device.Buffer]) error {
	d.layer("cache", p.Cache)
	return nil
}

func (d *recorder) MoveSlots(_ backend.Stream, p backend.MoveSlotsParams[*device.Buffer]) error {
	d.layer("cache", p.Cache)
	return nil
}

func (d *recorder) ConvertBlocks(_ backend.Stream, p backend.ConvertBlocksParams[*device.Buffer]) error {
	d.layer("from", p.From)
	d.layer("to", p.To)
	return nil
}

func (d *recorder) Rotate(_ backend.Stream, p backend.RotateParams[*device.Buffer]) error {
	d.use("keys", p.Cache.K.Data, 0, p.Cache.K.Data.Len())
	return nil
}

// recorded is a rig on a recorder.
func recorded(t *testing.T) (*rig[*device.Buffer], *recorder) {
	one, d := limit{does: work{bytes: 1}, times: []float64{1}}, &recorder{}
	r := &rig[*device.Buffer]{b: t, random: map[backend.DType][]byte{}, limits: limits{copy: one, read: one, matrix: []limit{one}}}
	r.Backend = d
	return r, d
}

// No call finds what it moves in the cache of an H100, of 50 MB: between two uses of a byte
// at least twice as many others are used.
func TestNothingIsCached(t *testing.T) {
	const cached, most = 50e6, 4 << 30
	r, d := recorded(t)
	all := r.list()
	require.Less(t, len(all), 180, "a second each and some for its memory: five minutes")
	for _, c := range all {
		if strings.HasPrefix(c.name, merge) {
			continue // finds its parts where the step leaves them
		}
		d.allocated, d.used = 0, map[string]map[spot]int64{}
		_, op := c.set(r)
		d.used = map[string]map[spot]int64{}
		for turn := range 3000 {
			require.NoError(t, op(turn))
		}
		require.NotEmpty(t, d.used, c.name)
		for operand, spots := range d.used {
			var bytes int64
			for _, n := range spots {
				bytes += n
			}
			require.Greater(t, float64(bytes), 2*cached, "%s: %s", c.name, operand)
		}
		require.Less(t, d.allocated, int64(most), c.name)
	}
}

// Names are unique, and those that the page is tested with are among them.
func TestNames(t *testing.T) {
	r, _ := recorded(t)
	names := map[string]bool{}
	for _, c := range r.list() {
		require.False(t, names[c.name], c.name)
		require.NotRegexp(t, `-\d+$`, c.name, "the end would be taken for GOMAXPROCS")
		names[c.name] = true
	}
	sample, err := os.ReadFile("../benchpage/testdata/sample.txt")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^BenchmarkKernels/(\S+)-16 `).FindAllStringSubmatch(string(sample), -1) {
		require.True(t, names[m[1]] || strings.HasPrefix(m[1], "limit/"), m[1])
	}
}
