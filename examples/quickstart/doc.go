// Package quickstart is the example of the README: one step of a model with two
// layers, and a fork of its sequence.
package quickstart
