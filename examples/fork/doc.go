// Package fork shows several continuations of one prompt: they share its blocks,
// and each copies only the block that it writes into.
package fork
