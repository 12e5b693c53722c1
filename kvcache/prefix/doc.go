// Package prefix finds what was computed before: a radix tree from tokens to the
// blocks that hold their keys and values, after RadixAttention (Zheng et al.,
// SGLang, 2024). It knows blocks as numbers of a block.BlockAllocator and no
// memory or device.
//
// # The tree
//
// An edge is a run of blocks, each with the BlockSize tokens whose keys and values
// it holds; only the last block of a leaf may have fewer. A path from a root says
// everything that the content of its blocks depends on: the root stands for the
// model, the adapter and the salt (see Fingerprint and Scope), the tokens for
// themselves, and a block's mark for what is not a token (see Query). A lookup
// compares tokens, never only a hash.
//
// # Owners
//
// The tree owns no block. A block in it is held, by whoever took or inserted it, or
// cached: without an owner, waiting to be taken again or evicted. Who owns a block
// owns its ancestors, so that a cached block has cached descendants only, and all
// of them were released before it was:
//
//	Lookup → Take → … → Insert → … → Release → cached → Take, or Evict
//
// Cached blocks stand in queues, released last at the back. Of one path the tail
// is released before the head, so that the front of a queue is the end of a path,
// and an eviction takes constant time (see Policy).
//
// # Blocks elsewhere
//
// Where blocks have copies below the device, in host memory or on disk, an entry may outlive
// its block (Config.MaxAway): its content is elsewhere then, found by its Key, and the entry
// is away. Of every path the resident blocks come before those that are away, which have no
// owners:
//
//	cached → Evict, and Config.Demote says yes → away → Promote or Insert → held
//	                                             away → Drop, or more than MaxAway → gone
//
// A match says how many tokens are resident, and how many follow away. What is owned, pinned,
// limited by quotas and told as events is what is resident.
//
// # Concurrency
//
// Lookup, Stats and the other methods that change nothing may run at any time, side
// by side. The others change the allocator, too: they are called under the lock
// that guards it.
package prefix
