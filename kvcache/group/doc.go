// Package group is about layers that do not all keep the same: the groups of a model's layers, what each of
// them needs of a sequence's tokens, and the blocks that a prefix tree has for them.
//
// Layers that have one list of blocks for each sequence are a part: all layers of a pool where these are alike. Of a group with many
// layers there are several parts, so that a block of any part takes as much memory as one of any other, and all come from one
// allocator (the hybrid cache manager of vLLM; Jenga, arXiv:2503.18292). An entry of the prefix tree is a place where each part may
// have blocks. With one part that keeps everything it is the block itself: see Cache.
//
// The package knows tokens and blocks by their numbers, and no memory or device.
package group
