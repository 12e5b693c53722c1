// Package watch shows how another process learns which prefixes a pool has in its cache:
// from the events of Pool.Watch, with keys that it computes from the tokens.
package watch
