package cpubench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// rig is everything that trials share.
type rig struct {
	tb      testing.TB
	short   bool
	threads []int    // numbers of threads to measure with
	kernels []string // of this processor, the fastest first
	home    *device  // owns all memory
	devices map[spec]*device
	room    int      // bytes of memory to use, at most
	flush   int      // see arena
	reduced []string // what there was no memory for

	stored  *arena // is read
	written *arena // is written to: nothing is known of what it holds
	turned  *arena // holds keys of f16, and is turned in place

	ahead  [multiplying]int // bytes that probes prefetch ahead, for each kind
	chosen func(name string) bool
	trials []*trial
}

// spec is how a device was opened.
type spec struct {
	kernels string
	threads int
}

func (s spec) String() string { return fmt.Sprintf("threads=%d/kernels=%s", s.threads, s.kernels) }

// device is an open device and its stream.
type device struct {
	spec
	probes
	be     *cpu.Backend
	stream backend.Stream
}

func newRig(tb testing.TB, short bool, chosen func(name string) bool) *rig {
	r := &rig{tb: tb, short: short, chosen: chosen, devices: map[spec]*device{}, threads: []int{1}}
	if n := runtime.GOMAXPROCS(0); n > 1 {
		r.threads = append(r.threads, n)
	}
	for _, name := range []string{"avx512", "avx2", "neon", "go"} {
		if be, err := cpu.Open(cpu.Options{Threads: 1, Kernels: name}); err == nil {
			r.must(be.Close())
			r.kernels = append(r.kernels, name)
		}
	}
	r.home = r.device(spec{r.kernels[0], 1})
	r.room = r.free() / 5 * 3
	wanted := r.size(flushed(lastCache()), 16<<20)
	if r.flush = min(wanted, r.room/10); r.flush < wanted {
		r.reduced = append(r.reduced, fmt.Sprintf("%d MiB should be used between two uses of a byte", wanted>>20))
	}
	return r
}

// free is the bytes of memory that there are.
func (r *rig) free() int {
	known := []int{int(r.home.be.Info().FreeMemory), freeMemory()}
	if known = slices.DeleteFunc(known, func(n int) bool { return n == 0 }); len(known) > 0 {
		return slices.Min(known)
	}
	return 4 << 30
}

// must ends the benchmark, or the test, at an error.
func (r *rig) must(err error) {
	r.tb.Helper()
	require.NoError(r.tb, err)
}

// size is a size of a shape.
func (r *rig) size(full, short int) int {
	if r.short {
		return short
	}
	return full
}

// best is the fastest kernels with so many threads.
func (r *rig) best(threads int) spec { return spec{r.kernels[0], threads} }

// all is the largest number of threads.
func (r *rig) all() int { return r.threads[len(r.threads)-1] }

// device returns an open one. It lives as long as the benchmark.
func (r *rig) device(s spec) *device {
	if d, ok := r.devices[s]; ok {
		return d
	}
	be, err := cpu.Open(cpu.Options{Threads: s.threads, Kernels: s.kernels})
	r.must(err)
	d := &device{spec: s, probes: probesOf(s.kernels), be: be}
	r.tb.Cleanup(func() { r.must(be.Close()) })
	d.stream, err = be.NewStream()
	r.must(err)
	r.devices[s] = d
	return d
}

// alloc returns memory that lives as long as the device.
func (r *rig) alloc(d *device, dt backend.DType, n int) *cpu.Buffer {
	buf, err := d.be.Alloc(dt, n)
	r.must(err)
	return buf
}

// upload is alloc with contents.
func upload[T backend.Number](r *rig, d *device, dt backend.DType, values []T) *cpu.Buffer {
	buf, err := backend.AllocFrom(d.be, d.stream, dt, values)
	r.must(err)
	return buf
}

// filled is alloc with numbers.
func (r *rig) filled(d *device, dt backend.DType, n int) *cpu.Buffer {
	buf := r.alloc(d, dt, n)
	mem, err := d.be.HostBytes(buf)
	r.must(err)
	fill(mem)
	return buf
}

// fill writes random numbers that any type can be read from, so that one piece of memory
// serves all of them. Halves of a word are finite in f16, bf16 and as a word's upper half in
// f32, normal, and below 1; bytes are no NaN of a float of 8 bits.
func fill(mem []byte) {
	const patternBytes = 1 << 20
	rng := rand.New(rand.NewPCG(1, 2))
	first := mem[:min(patternBytes, len(mem)/2*2)]
	for i := 0; i < len(first); i += 2 {
		bits := uint16(rng.Uint32())
		binary.LittleEndian.PutUint16(first[i:], bits&0x83fb|0x3800)
	}
	for have := len(first); have > 0 && have < len(mem); have *= 2 {
		copy(mem[have:], mem[:have])
	}
}

// plan leaves out the trials that there is no memory for, and makes the arenas that the others
// need.
func (r *rig) plan() {
	most := r.room - 5*r.flush // of a piece; those that are written are small
	reads, writes, all := 0, 0, len(r.trials)
	r.trials = slices.DeleteFunc(r.trials, func(t *trial) bool { return t.reads > most })
	if left := all - len(r.trials); left > 0 {
		r.reduced = append(r.reduced, fmt.Sprintf("%d trials that read more than %.1f GiB in a call are left out", left, gib(most)))
	}
	for _, t := range r.trials {
		reads, writes = max(reads, t.reads), max(writes, t.writes)
	}
	r.stored, r.written, r.turned = r.newArena(reads), r.newArena(writes), r.newArena(writes)
	fill(r.stored.mem)
	fill(r.turned.mem)
	clear(r.written.mem) // the system gives memory at the first write
}
