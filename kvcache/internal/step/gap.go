package step

import "github.com/ferrumkv/ferrumkv/kvcache/group"

// A device counts runs of keys, and the parts that it cuts long contexts into, from the beginning of a block table, and adds
// in that order. A sequence whose window gave blocks back has fewer of them, and with those alone in its table a query's bits
// would depend on how much was given back, and so on how a prompt was split into steps. So its table has a gap after the
// sinks, in which no query sees anything: every key lies where it would if nothing had been given back, modulo
// period tokens. No memory is held for it.

// period is a multiple of the keys of any run or part of a device that promises the same bits: see
// cpu.Options.Reproducible.
const period = 2048

// gapOf is the tokens of the gap of a sequence that gave blocks back. Keys after the sinks share a period with
// sinks only if they would with nothing given back.
func gapOf(r *group.Rule, sinks, gone int) int {
	if gone == 0 {
		return 0
	}
	apart, step := periods(r)
	gone *= r.Block
	return gone - max(sinks*r.Block+gone-apart, 0)/step*step
}

// mostGap is more than any gap.
func mostGap(r *group.Rule) int {
	apart, step := periods(r)
	return apart + step
}

// periods is the tokens of whole periods that sinks lie in, and the fewest tokens that are whole periods and whole blocks.
func periods(r *group.Rule) (sinks, blocks int) {
	powers := min(r.Block&-r.Block, period) // of two in a block
	return (r.Sinks + period - 1) / period * period, r.Block * (period / powers)
}

// part makes the gap in a row of a table whose blocks were written after it: those of sinks go to the beginning. The gap
// repeats the first block after it, because devices may read what is next to what a query sees.
func (e *entry[B]) part(row []uint32) {
	if e.gap == 0 {
		return
	}
	kernel := e.run.Part.Config.KernelTokens()
	sinks, _ := e.run.Cut()
	sinks, end := sinks/kernel, (sinks+e.gap)/kernel
	copy(row, row[end-sinks:end])
	first := uint32(0)
	if end < len(row) {
		first = row[end]
	}
	for i := sinks; i < end; i++ {
		row[i] = first
	}
}
