//go:build race

package llama

// underRace shortens texts: the race detector makes arithmetic ten times slower
// and looks at the same code in every token.
const underRace = true
