// Package serving continues texts and conversations with a model, for many callers at once: package schedule over package runner, with tokens turned
// into text, stop strings, and conversations whose second turn finds the cache of the first.
//
// It knows nothing of HTTP: see package server.
package serving
