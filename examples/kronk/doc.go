// Package kronk keeps the sessions of kronk, an engine in Go, in a directory of states (kvcache/states), behind the interface that it has for
// them: Len, Cap, Bytes, Prepare, Commit, Reset and Close. It is a program to read and to copy; the library does not use it.
//
// Kronk asks a factory for its stores, and says nothing of the model or of the conversation. With a store of states that is open, the identity of
// the model that is loaded, and a name for the conversation, it is hooked in by
//
//	open := kronk.New(store, identity).Factory("conversation 7")
//	cfg.SessionStoreFactory = func(ctx context.Context) (kvstorage.Store, error) { return open(ctx) }
package kronk
