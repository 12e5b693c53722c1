// Package offload moves the blocks of a pool to the tiers below the device, and back.
//
// Down: an entry of the prefix tree that a device has written is packed, without the pool's lock, into host memory and put into the tiers
// under its key. That happens when it is published, not when it is evicted: who evicts needs the block at once, and cannot
// wait for a copy. So a block that leaves the device later is already below, unless it stayed for less time than packing takes, and an eviction
// costs nothing. A tier that has a key is not given it again.
//
// A call of a tier may never return. Blocks are owned while they are copied, and never during a call; host memory that a call holds for long
// is replaced (lane.go).
//
// Up: of a prompt's blocks that the device does not have, and tiers do, the planner says how many are worth it. They come in parts: host memory
// is filled, blocks are taken as for a step, filled, and put into the prefix tree. Who asked for them goes on behind
// them, and others find them as if they had been computed.
//
// An entry of the tree has blocks, of one or several parts. Each goes under a key of its own, by Shape, which in a pool without Model.Groups
// is the entry's. Up comes what every part reads after the longest
// beginning that all of them have, on the device or in a tier (parts.go).
//
// Keys are those of the prefix tree (docs/keys.md), which say all that the content depends on. Only full blocks of exact content go
// down, and of a draft only what was accepted: no others are published.
package offload
