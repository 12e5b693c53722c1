// Package index finds which engines have the longest beginning of a prompt in their caches, from the events by which they say what they have
// (package kvevents). It is what a router needs to send a request to where most of it is computed already.
//
// An Index has keys of its own: each is a hash of a block of tokens and of the key before it, so that engines with other hashes, and other block sizes,
// are found by one lookup. The rules by which events count are those of llm-d's router (pkg/kvevents, 2026), so that both send a prompt
// to the same engine:
//
//   - Blocks are counted for each owner, medium and group of layers: a block that was stored twice is there until it was removed twice.
//   - A block whose parent the owner does not have on any medium is skipped, since nobody knows which prompt it belongs to.
//   - A group counts where its kind is full_attention, mla_attention or sink_full_attention, or is not known; other groups are skipped.
//   - A store without tokens says that blocks that are known are on one more medium.
//   - The name of an adapter stands in the place of the model's. Other extra keys, such as salts, are part of the block they are sent with.
//   - AllBlocksCleared forgets the owner's blocks on all media.
//
// An Index is for one model. It is an estimate: between an event and a request an engine may have evicted what the event named.
package index
