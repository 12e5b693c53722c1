// Package tree shows a tree of guesses that one step computes.
package tree
