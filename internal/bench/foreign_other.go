//go:build !linux

package bench

// ticks is the time of the processors until now: unknown here.
func ticks() (used, all float64) { return 0, 0 }

// tick is the seconds of one.
const tick = 1

// ownSeconds is the processor time of this process.
func ownSeconds() float64 { return 0 }
