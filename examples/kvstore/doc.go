// Package kvstore keeps the snapshots of conversations in a directory, behind the interface that kronk, an engine in Go, has for them:
// Len, Cap, Bytes, Prepare, Commit, Reset and Close. It is a program to read and to copy; the library does not use it.
//
// A snapshot is cut where its content says so, in chunks of about 1 MiB, and each chunk is kept once, however many snapshots have it: those
// of a conversation that grows, and of others that begin alike. What is read was verified, and a crash leaves the old snapshot or the new one.
// Sealed snapshots (snapshot.Options.Secret) share nothing: no two of their sections are the same bytes.
//
// Kronk asks a factory for its stores. With a directory that is open, and a name for the conversation, it is hooked in by
//
//	open := dir.Factory("conversation 7")
//	cfg.SessionStoreFactory = func(ctx context.Context) (kvstorage.Store, error) { return open(ctx) }
package kvstore
