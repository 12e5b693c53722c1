// Package window shows a model whose layers see different parts of the past: one a sliding
// window, the other everything. One plan serves both.
package window
