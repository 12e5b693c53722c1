//go:build !race

package evict

const raceEnabled = false
