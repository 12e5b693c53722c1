//go:build race

package kvcache

const raceEnabled = true
