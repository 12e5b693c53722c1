//go:build race

package cpubench

const raceEnabled = true
