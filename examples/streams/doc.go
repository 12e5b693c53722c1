// Package streams shows goroutines that work on one pool. Each has its own stream and
// its own step.
package streams
