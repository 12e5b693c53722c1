// Package kvevents reads and writes the events with which inference engines announce which blocks of keys and values are in their caches: those of vLLM
// (--kv-events-config) and of SGLang. A router that follows them knows which engine has cached most of a prompt; llm-d, Dynamo, Mooncake's Conductor and
// others can route to an engine or a simulator that writes them.
//
// An event is a BlockStored, a BlockRemoved or an AllBlocksCleared. Engines publish them in batches, as MessagePack, over ZeroMQ. This package handles the
// payloads: Form.AppendBatch encodes them, a Decoder decodes every form that engines have used, and AppendVLLM and AppendSGLang compute the hashes by which
// engines name blocks. Package pubsub, below this one, is the transport, with replay; package index finds the engines that have cached the longest prefix
// of a prompt.
//
// The package imports only the standard library and nothing else from this module. This package and package index also build with Go 1.22: the module
// requires a later Go, so a program that is built with an older one copies the two folders without their tests.
//
// # Trust
//
// Events are not authenticated. Anyone who can reach an engine's port can read the prompts it has seen, since the tokens in events are the prompts
// themselves; and anyone who can answer in its place can make a router send prompts to engines that have not cached them. Keep the ports on a private
// network.
package kvevents
