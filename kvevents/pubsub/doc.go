// Package pubsub sends and receives the events of package kvevents over ZeroMQ, as vLLM and SGLang do: an engine publishes batches with sequence numbers
// on a PUB socket, and sends again what a subscriber has missed on a ROUTER socket. Engines and routers written for vLLM can be at the other end.
//
// # Epochs
//
// Engines keep their last 10,000 batches: a subscriber that comes later never learns of blocks stored before. A Publisher keeps all batches of an epoch.
// When they exceed a bound, it begins a new epoch at sequence 0: AllBlocksCleared, then the blocks that are stored now, parents first. A replay
// from 0 therefore always gives the present state, and subscribers that know nothing of epochs see what they see when an engine restarts.
//
// # Slow subscribers
//
// The queue of a subscriber is a position in the log of the epoch, so that one that is slow or stalls costs a Publisher its buffers and no more, and loses
// nothing: it goes on where it was, or at sequence 0 of a new epoch. One that takes nothing for 30 seconds is disconnected. Engines drop what a
// subscriber has no room for, and the sequence shows the gap; a Subscriber fills it by a replay.
//
// # Trust
//
// Nothing is encrypted or authenticated. Tokens in events are the prompts themselves. Keep the ports in a network of your own.
package pubsub
