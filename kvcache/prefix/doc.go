// Package prefix finds keys and values that were computed before: a radix tree from tokens to the
// blocks that hold them, after RadixAttention (Zheng et al., SGLang, 2024, arXiv:2312.07104). It
// knows blocks as the numbers of a block.BlockAllocator, and no memory or device.
//
// # The tree
//
// A node is a run of blocks, each with the BlockSize tokens whose keys and values it holds; only
// the last block of a leaf may have fewer. The path from the root to a block says all that the
// block's content depends on: the root stands for the model, the adapter and the salt (see
// Fingerprint and Scope), the tokens for themselves, and the block's mark for content that is not
// text (see Query). A lookup compares tokens, never only a hash.
//
// # Owners
//
// The tree owns no block. A block in it is either held, by those who took or inserted it, or
// cached: it has no owner and can be taken again or evicted. An owner of a block also owns the
// blocks before it on the path, so the blocks after a cached one are cached, too, and were released
// before it:
//
//	Lookup → Take → … → Insert → … → Release → cached → Take, or Evict
//
// Cached blocks are in queues, the last released one at the back. The end of a path is released
// before its beginning, so the front of a queue is the end of a path and an eviction takes constant
// time (see Policy).
//
// # Offloaded blocks
//
// When blocks have copies in a lower tier, host memory or disk, an entry can stay in the tree after
// its block left the device (Config.MaxOffloaded). It is then offloaded: it has no block and no
// owner, and its content is found elsewhere by its Key. On a path the resident blocks come first:
//
//	cached → Evict, and Config.Demote says yes → offloaded → Promote or Insert → held
//	                                             offloaded → Drop, or more than MaxOffloaded → removed
//
// A match has a number of resident tokens, and a number of offloaded ones that follow. Owners,
// leases, quotas and events are about resident blocks only.
//
// # Rooms
//
// The tree has nodes, leases, events and offloaded entries, and counts what each salt has. Its internal packages know no node:
// policy decides which block of a group is evicted, account which group gives it, by quotas and floors.
//
// # Concurrency
//
// Lookup, Stats and the other methods that change nothing may be called at any time, concurrently.
// The others also change the allocator: the caller must hold the lock that guards it.
package prefix
