package prefix

import (
	"unsafe"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/intrusive"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
)

// Memory of a tree in bytes. In addition each block in the tree takes its tokens and its number.
const (
	// EntryBytes is taken for each block of the allocator, in the tree or not.
	EntryBytes = int(unsafe.Sizeof(entry{})+3*unsafe.Sizeof(uint64(0))) + policy.EntryBytes // with its places in tables
	// OffloadedBytes is taken for each of Stats.Offloaded, its key included.
	OffloadedBytes = int(unsafe.Sizeof(entry{}) + unsafe.Sizeof(intrusive.Link{}) + unsafe.Sizeof(uint32(0)) + unsafe.Sizeof(Key{}) + 2*(unsafe.Sizeof(Key{})+unsafe.Sizeof(uint64(0))))
	// NodeBytes is taken for each of Stats.Nodes.
	NodeBytes = int(unsafe.Sizeof(node{}))
	// RootBytes is taken for each of Stats.Roots, with the statistics of its salt.
	RootBytes = int(unsafe.Sizeof(root{}) + unsafe.Sizeof(tenant{}) + 2*2*(unsafe.Sizeof(Key{})+unsafe.Sizeof(uintptr(0)))) // with its places in tables, half of which are empty
)
