// Package graph shows a decode step that is captured once and launched for each token,
// on devices that have graphs.
package graph
