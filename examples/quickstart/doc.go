// Package quickstart is the example of the README: a step of a model with two
// layers for each of two requests with the same prompt, and a fork.
package quickstart
