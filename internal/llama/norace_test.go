//go:build !race

package llama

const underRace = false
