// Package admission shows a server that admits a request only when there is room for
// the longest sequence that it may become, so that no sequence finds the pool full halfway.
package admission
