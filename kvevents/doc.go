// Package kvevents reads and writes the events by which inference engines say which blocks of keys and values they have in their caches: those of vLLM
// (--kv-events-config) and of SGLang. A router that follows them knows which engine has most of a prompt; a simulator or an engine that writes them
// can be routed to by llm-d, Dynamo, Mooncake's Conductor and others.
//
// An event is a BlockStored, a BlockRemoved or an AllBlocksCleared. Engines publish them in batches, as MessagePack, over ZeroMQ. This package has the
// payloads: Form.AppendBatch encodes, a Decoder decodes all forms that engines have had, and AppendVLLM and AppendSGLang compute the hashes by which engines name
// blocks. Package pubsub, below it, has the transport with replay, and package index finds the owners of the longest prefix of a prompt.
//
// The package imports the standard library only, and nothing else of this module. Its code is that of Go 1.23; the module asks for more, so that
// a program with an older Go copies the folder.
//
// # Trust
//
// Events are not authenticated: whoever can reach an engine's port can read which prompts it has seen, and whoever can answer in its place can send prompts
// to where they are not cached. Tokens in events are the prompts themselves. Keep the ports in a network of your own.
package kvevents
