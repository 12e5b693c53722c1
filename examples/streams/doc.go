// Package streams shows goroutines that work on one pool, each with a stream and a
// step of its own.
package streams
