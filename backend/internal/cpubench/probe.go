package cpubench

import "sync"

// probes find what a processor can do at most with one kind of kernels. Those of memory may
// prefetch what lies some bytes ahead: whether that is any use differs from one processor to
// the next.
type probes struct {
	read func(mem []byte, ahead int)
	copy func(dst, src []byte, ahead int)
	// fma is absent where there is no assembly for it: a loop in Go finds another limit.
	fma func(flops int)
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
