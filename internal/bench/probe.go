package bench

import (
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
)

// probe is one measurement of a limit: what run puts on the device's stream.
type probe struct {
	amount float64 // bytes, those read and those written, or floating point operations
	run    func() error
}

// prober makes the probes of a device; false where it has none of a bound.
type prober interface {
	probe(k bound) (probe, bool)
}

// instructions find what a processor can do at most with one kind of kernels. Those of memory
// may prefetch what lies some bytes ahead: whether that is any use differs from one processor
// to the next.
type instructions struct {
	read func(mem []byte, ahead int)
	copy func(dst, src []byte, ahead int)
	// fma is absent where there is no assembly for it: a loop in Go finds another limit.
	fma func(flops int)
}

// hostProbes are those of a processor, on some threads. What is in from is only read.
type hostProbes struct {
	instructions
	threads  int
	from, to *arena
	bytes    int // that a probe reads; it copies half of them
	flops    int // of a thread
	ahead    *[multiplying]int
}

func (h hostProbes) probe(k bound) (probe, bool) {
	switch {
	case k == reading:
		return probe{float64(h.bytes), func() error {
			mem := h.from.take(h.bytes)
			together(h.threads, func(i int) { h.read(part(mem, i, h.threads), h.ahead[k]) })
			return nil
		}}, true
	case k == copying:
		bytes := pages(h.bytes / 2)
		return probe{2 * float64(bytes), func() error {
			from, to := h.from.take(bytes), h.to.take(bytes)
			together(h.threads, func(i int) { h.copy(part(to, i, h.threads), part(from, i, h.threads), h.ahead[k]) })
			return nil
		}}, true
	case k == multiplying && h.fma != nil:
		return probe{float64(h.flops * h.threads), func() error {
			together(h.threads, func(int) { h.fma(h.flops) })
			return nil
		}}, true
	}
	return probe{}, false
}

// tune finds out how far ahead the probes of memory prefetch best here, in some tries each.
func (h hostProbes) tune(clock Clock, tries int) error {
	for _, k := range []bound{reading, copying} {
		best := 0.
		p, _ := h.probe(k)
		tried := [...]int{0, 4096, 8192}
		for i := range tries {
			old := h.ahead[k]
			h.ahead[k] = tried[i%len(tried)]
			rate, err := clock.rate(p)
			if err != nil {
				return err
			}
			if rate > best {
				best = rate
			} else {
				h.ahead[k] = old
			}
		}
	}
	return nil
}

// deviceProbes are those of a device whose memory others cannot touch: copies, which every
// device has, and the kernel that only reads, where read is set.
type deviceProbes[B backend.Buffer] struct {
	be     backend.Backend[B]
	stream backend.Stream
	big    B // far more than a cache holds
	read   func() error
}

func (d deviceProbes[B]) probe(k bound) (probe, bool) {
	half := d.big.Len() / 2
	copies := func() error { return d.be.Copy(d.stream, d.big, 0, d.big, half, half) }
	switch {
	case k == reading && d.read != nil:
		return probe{float64(d.big.Bytes()), d.read}, true
	case k == reading || k == copying:
		return probe{float64(d.big.Bytes()), copies}, true
	}
	return probe{}, false
}

// together runs work on n goroutines, for each of the n parts.
func together(n int, work func(i int)) {
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() { work(i) })
	}
	done.Wait()
}

// part is one of n equal parts of memory, cut at pages.
func part(mem []byte, i, n int) []byte {
	return mem[len(mem)/n*i/page*page : len(mem)/n*(i+1)/page*page]
}
