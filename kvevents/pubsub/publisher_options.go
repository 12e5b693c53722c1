// Options of a Publisher: what is not set has the values of vLLM where it has them.

package pubsub

import (
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// PublisherOptions configure a Publisher. Fields with their zero value have defaults.
type PublisherOptions struct {
	// Events is where subscribers connect: tcp://host:port or ipc:///path. "": tcp://*:5557, which is all addresses of the machine.
	Events string
	// Replay is where they request what they have missed. "": tcp://*:5558.
	Replay string
	// Topic is sent with each batch: see the function Topic. Subscribers select topics by prefix.
	Topic string
	// Form is how batches are encoded. With forms other than kvevents.VLLM, replays omit the topic, as those of the engines do.
	Form kvevents.Form
	// Rank is the data-parallel rank of the engine.
	Rank int

	// LogBatches and LogBytes limit an epoch, or twice the state that it began with if that is more. 0: 10,000 batches, and 64 MiB.
	LogBatches int
	LogBytes   int64
	// Blocks is how many blocks can be stored at once. 0: 1<<20. A block on two media counts twice.
	Blocks int
	// Subscribers and Replays limit the connections to Events and to Replay, handshakes included; further ones are closed. 0: 64 each.
	Subscribers, Replays int

	handshake, stall, replay time.Duration // most time for a handshake, a write without progress, and the answer to a replay
}

func (o PublisherOptions) filled() (PublisherOptions, error) {
	for name, n := range map[string]int64{"LogBatches": int64(o.LogBatches), "LogBytes": o.LogBytes, "Blocks": int64(o.Blocks),
		"Subscribers": int64(o.Subscribers), "Replays": int64(o.Replays)} {
		if n < 0 {
			return o, argument(name, "it is %d; it must not be negative", n)
		}
	}
	if o.Form < 0 || o.Form > kvevents.SGLangArrays {
		return o, argument("Form", "%d is no form; use a constant of package kvevents", o.Form)
	}
	if len(o.Topic) > mostTopic {
		return o, argument("Topic", "it has %d bytes; the limit is %d", len(o.Topic), mostTopic)
	}
	or(&o.Events, "tcp://*:5557")
	or(&o.Replay, "tcp://*:5558")
	or(&o.LogBatches, 10_000)
	or(&o.LogBytes, 64<<20)
	or(&o.Blocks, 1<<20)
	or(&o.Subscribers, 64)
	or(&o.Replays, 64)
	or(&o.handshake, 5*time.Second)
	or(&o.stall, 30*time.Second)
	or(&o.replay, time.Minute)
	return o, nil
}

func or[T comparable](v *T, usual T) {
	var zero T
	if *v == zero {
		*v = usual
	}
}
