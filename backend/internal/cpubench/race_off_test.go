//go:build !race

package cpubench

const raceEnabled = false
