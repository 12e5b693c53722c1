// Package pubsub sends and receives the events of package kvevents over ZeroMQ, as vLLM and SGLang do: an engine publishes batches with sequence numbers
// on a PUB socket, and resends what a subscriber has missed on a ROUTER socket. It works with engines and routers written for vLLM.
//
// # Epochs
//
// Engines keep their last 10,000 batches: a subscriber that joins later never learns of blocks stored earlier. A Publisher keeps all batches of an epoch.
// When they exceed a bound, it begins a new epoch at sequence 0: AllBlocksCleared, then the blocks that are stored now, parents first. A replay
// from 0 therefore always gives the present state. To subscribers that know nothing of epochs, a new one looks like a restart of the engine. The call of
// Publish that begins an epoch encodes the whole state: about a second for a million blocks.
//
// # Slow subscribers
//
// A subscriber's queue is a position in the log of the epoch. One that is slow or stalls costs a Publisher only its buffers, and loses
// nothing: it goes on where it was, or at sequence 0 of a new epoch. One that takes nothing for 30 seconds is disconnected. Engines drop messages
// when a subscriber's queue is full; a Subscriber sees the gap in the sequence and fills it with a replay. Their replays drop messages, too: a Subscriber
// asks for the rest.
//
// # Trust
//
// Nothing is encrypted or authenticated, and the tokens in events are the prompts themselves. Anyone who can connect can take all connections, or request
// the whole log over and over. Keep the ports in a private network.
package pubsub
