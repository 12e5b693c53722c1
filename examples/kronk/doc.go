// Package kronk keeps the sessions of kronk, an engine in Go, in a directory of states (kvcache/states). It implements the interface that kronk has
// for session stores: Len, Cap, Bytes, Prepare, Commit, Reset and Close. It is an example to read and copy; the library does not use it.
//
// Kronk asks a factory for its stores, and tells it neither the model nor the conversation. Given an open store of states, the identity of the loaded
// model, and a name for the conversation, the package is hooked in by
//
//	open := kronk.New(store, identity).Factory("conversation 7")
//	cfg.SessionStoreFactory = func(ctx context.Context) (kvstorage.Store, error) { return open(ctx) }
//
// The interface is that of v1.33, the version with contexts. It is stated here by its methods, because kronk itself needs Go 1.27. Kronk commits the
// states of a target, of a draft and of a checkpoint one by one, so each of them is a state of its own here. An engine that calls Store.Put itself can
// store them as the parts of one state.
package kronk
