package prefix

import "unsafe"

// What a tree's books take, in bytes, for who counts memory. Besides, each block in
// the tree has its tokens and its number.
const (
	// EntryBytes is for each block of the allocator, in the tree or not.
	EntryBytes = int(unsafe.Sizeof(entry{}) + 3*unsafe.Sizeof(uint64(0))) // with its places in tables
	// AwayBytes is for each of Stats.Away, with its key, and that in a table half of which is
	// empty.
	AwayBytes = int(unsafe.Sizeof(entry{}) + unsafe.Sizeof(uint32(0)) + unsafe.Sizeof(Key{}) + 2*(unsafe.Sizeof(Key{})+unsafe.Sizeof(uint64(0))))
	// NodeBytes is for each of Stats.Nodes.
	NodeBytes = int(unsafe.Sizeof(node{}))
	// RootBytes is for each of Stats.Roots, with what is counted of its salt.
	RootBytes = int(unsafe.Sizeof(root{}) + unsafe.Sizeof(tenant{}) + 2*2*(unsafe.Sizeof(Key{})+unsafe.Sizeof(uintptr(0)))) // with its places in tables, half of which are empty
)
