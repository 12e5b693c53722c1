// Package speculative shows a step that verifies draft tokens: all of them are appended
// and attended to at once, and those that the model rejects are truncated.
package speculative
