// Package kronk keeps the sessions of kronk, an engine in Go, in a directory of states (kvcache/states), behind the interface that it has for
// them: Len, Cap, Bytes, Prepare, Commit, Reset and Close. It is a program to read and to copy; the library does not use it.
//
// Kronk asks a factory for its stores, and says nothing of the model or of the conversation. With a store of states that is open, the identity of
// the model that is loaded, and a name for the conversation, it is hooked in by
//
//	open := kronk.New(store, identity).Factory("conversation 7")
//	cfg.SessionStoreFactory = func(ctx context.Context) (kvstorage.Store, error) { return open(ctx) }
//
// The interface is that of v1.33, which has contexts, stated here by its methods: kronk itself needs Go 1.27. It commits the states of a target, of a
// draft and of a checkpoint one by one, so that each is a state of its own here; an engine that calls Put stores them as one.
package kronk
