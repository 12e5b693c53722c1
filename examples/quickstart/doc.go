// Package quickstart is the program of the README: two requests with the same
// prompt, of which the second computes only what the cache does not have.
package quickstart
