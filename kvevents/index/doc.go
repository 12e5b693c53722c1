// Package index finds which engines have cached the longest prefix of a prompt, from the events in which they announce what they have cached
// (package kvevents). A router needs this to send a request to the engine that has already computed most of it.
//
// An Index has keys of its own: each is a hash of a block of tokens and of the key before it, so a single lookup finds engines with different hashes and
// different block sizes. Events count by the rules of llm-d's router (pkg/kvevents, 2026), with the exceptions below:
//
//   - Blocks are counted per owner, medium and group of layers: a block that was stored twice is present until it has been removed twice.
//   - A block whose parent the owner does not have on any medium is skipped, because nobody knows which prompt it belongs to.
//   - A group counts if its kind is full_attention, mla_attention or sink_full_attention; groups of other kinds are skipped.
//   - A store without tokens says that known blocks are now on a further medium.
//   - The name of an adapter takes the place of the model's. Other extra keys, such as salts, belong to the block they are sent with.
//   - AllBlocksCleared removes the owner's blocks from all media.
//
// Where it differs: a group whose kind was never announced counts, which llm-d's router skips, since earlier versions of vLLM send groups without their kind. The
// name of the adapter among the extra keys is not an extra key. Extra keys of an engine's block that spans several blocks of the index belong to the first
// of these, which llm-d repeats for each. Events whose tokens do not fill their blocks are skipped, with a group or without.
//
// An Index is for one model. It is an estimate: between an event and a request, an engine may have evicted what the event named.
package index
