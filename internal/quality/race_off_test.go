//go:build !race

package quality

// underRace shortens texts: the race detector makes arithmetic ten times slower and looks
// at the same code in every token.
const underRace = false
