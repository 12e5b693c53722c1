// Package speculative shows a step that checks guessed tokens: all of them are
// appended and attended at once, and those that the model rejects are truncated.
package speculative
