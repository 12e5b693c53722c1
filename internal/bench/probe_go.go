package bench

import "sync/atomic"

// portable is the probes in Go. They reach memory's speed on most machines, if less surely.
var portable = instructions{read: readGo, copy: func(dst, src []byte, _ int) { copy(dst, src) }}

// kept holds a result that the compiler must not find unused.
var kept atomic.Uint64

// readGo brings every cache line to the processor. A word of each is enough for that, and
// leaves memory, not arithmetic, as the limit.
func readGo(mem []byte, _ int) {
	const line = 64 // bytes of a cache line, or half of one
	var sums [4]uint64
	for ; len(mem) >= 4*line; mem = mem[4*line:] {
		for i := range sums {
			sums[i] += uint64(mem[i*line])
		}
	}
	kept.Add(sums[0] + sums[1] + sums[2] + sums[3])
}
