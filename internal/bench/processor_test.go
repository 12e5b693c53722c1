package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// processor is everything that the trials of the CPU share.
type processor struct {
	short   bool
	threads []int    // numbers of threads to measure with
	kernels []string // of this processor, the fastest first
	home    *device  // owns the arenas
	devices map[spec]*device
	room    int      // bytes of memory to use, at most
	flush   int      // bytes between two uses of a byte
	reduced []string // what there was no memory for

	arenas arenas
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

// device is an open device and its stream. What was allocated lives as long.
type device struct {
	spec
	memory[*cpu.Buffer]
	clock Clock
}

// newProcessor opens the processor with its fastest kernels. The caller closes it.
func newProcessor(short bool, chosen func(name string) bool) (*processor, error) {
	r := &processor{short: short, chosen: chosen, devices: map[spec]*device{}, threads: []int{1}}
	if n := runtime.GOMAXPROCS(0); n > 1 {
		r.threads = append(r.threads, n)
	}
	for _, name := range []string{"avx512", "avx2", "neon", "go"} {
		if be, err := cpu.Open(cpu.Options{Threads: 1, Kernels: name}); err == nil {
			if err := be.Close(); err != nil {
				return nil, err
			}
			r.kernels = append(r.kernels, name)
		}
	}
	var err error
	if r.home, err = r.device(spec{r.kernels[0], 1}); err != nil {
		return nil, err
	}
	r.room = r.free() / 5 * 3
	wanted := r.size(flushed(lastCache()), 16<<20)
	if r.flush = min(wanted, r.room/10); r.flush < wanted {
		r.reduced = append(r.reduced, fmt.Sprintf("%d MiB should be used between two uses of a byte", wanted>>20))
	}
	return r, nil
}

// close closes all devices, which frees their memory.
func (r *processor) close() error {
	var errs []error
	for _, d := range r.devices {
		errs = append(errs, d.stream.Close(), d.be.Close())
	}
	return errors.Join(errs...)
}

// free is the bytes of memory that there are.
func (r *processor) free() int {
	known := []int{int(r.home.be.Info().FreeMemory), freeMemory()}
	if known = slices.DeleteFunc(known, func(n int) bool { return n == 0 }); len(known) > 0 {
		return slices.Min(known)
	}
	return 4 << 30
}

// size is a size of a shape.
func (r *processor) size(full, short int) int {
	if r.short {
		return short
	}
	return full
}

// best is the fastest kernels with so many threads.
func (r *processor) best(threads int) spec { return spec{r.kernels[0], threads} }

// all is the largest number of threads.
func (r *processor) all() int { return r.threads[len(r.threads)-1] }

// device returns an open one. It lives as long as the benchmark.
func (r *processor) device(s spec) (*device, error) {
	if d, ok := r.devices[s]; ok {
		return d, nil
	}
	be, err := cpu.Open(cpu.Options{Threads: s.threads, Kernels: s.kernels})
	if err != nil {
		return nil, err
	}
	stream, err := be.NewStream()
	if err != nil {
		return nil, errors.Join(err, be.Close())
	}
	d := &device{spec: s, memory: memory[*cpu.Buffer]{be: be, stream: stream}, clock: HostClock(stream)}
	r.devices[s] = d
	return d, nil
}

// probes are those with the kernels and threads of a device.
func (r *processor) probes(d *device) hostProbes {
	return hostProbes{instructions: instructionsOf(d.kernels), threads: d.threads, from: r.arenas[toRead], to: r.arenas[toWrite],
		bytes: pages(r.flush / 4), flops: r.size(2e9, 5e7), ahead: &r.ahead}
}

// plan leaves out the trials that there is no memory for, and makes the arenas that the others
// need.
func (r *processor) plan() error {
	most := r.room - 5*r.flush // of a piece; those that are written are small
	reads, writes, all := 0, 0, len(r.trials)
	r.trials = slices.DeleteFunc(r.trials, func(t *trial) bool { return t.reads > most })
	if left := all - len(r.trials); left > 0 {
		r.reduced = append(r.reduced, fmt.Sprintf("%d trials that read more than %.1f GiB in a call are left out", left, gib(most)))
	}
	for _, t := range r.trials {
		reads, writes = max(reads, t.reads), max(writes, t.writes)
	}
	for use, most := range [...]int{toRead: reads, toWrite: writes, toRotate: writes} {
		a, err := r.newArena(most)
		if err != nil {
			return err
		}
		r.arenas[use] = a
	}
	for _, use := range []use{toRead, toRotate} {
		fillAny(r.arenas[use].mem)
	}
	clear(r.arenas[toWrite].mem) // the system gives memory at the first write
	return nil
}

// fillAny is fill with bytes that are scales, too: those of fill are infinite factors as floats of 8 bits,
// and exponents up to 2^124, with which sums are not finite and attention walks twice. Here they are at most 2^-4.
func fillAny(mem []byte) {
	fill(mem)
	for i := 0; i < len(mem)/8*8; i += 8 {
		word := binary.LittleEndian.Uint64(mem[i:])
		binary.LittleEndian.PutUint64(mem[i:], word&0x7b7b7b7b7b7b7b7b|0x0070007000700070)
	}
}

// newArena returns an arena for pieces of up to most bytes.
func (r *processor) newArena(most int) (*arena, error) {
	b := r.home.alloc(backend.U32, (pages(r.flush)+pages(most))/4)
	if r.home.err != nil {
		return nil, r.home.err
	}
	mem, err := backend.HostAccess[*cpu.Buffer](r.home.be.(*cpu.Backend)).HostBytes(b)
	return &arena{mem: mem}, err
}

// views is a source of memory for the calls of a trial.
func (r *processor) views(d *device) *views { return &views{be: d.be.(*cpu.Backend), from: &r.arenas} }
