// Package router shows how another process learns what a pool has in its cache: from
// the events of Pool.Watch, by keys that it computes itself.
package router
