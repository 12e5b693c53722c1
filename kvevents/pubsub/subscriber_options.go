// Options of a Subscriber, and what it returns.

package pubsub

import "time"

// Reset tells why a message does not follow the previous one.
type Reset int

const (
	// Joined is the first message, of a publisher whose state is known from its beginning.
	Joined Reset = iota + 1
	// Restarted is the first message of a publisher that has begun again: another process, or another epoch.
	Restarted
	// Lost is a message after a gap that no replay could fill. What is known from here on is a part of the publisher's state.
	Lost
)

func (r Reset) String() string {
	switch r {
	case 0:
		return "none"
	case Joined:
		return "joined"
	case Restarted:
		return "restarted"
	case Lost:
		return "lost"
	}
	return "unknown"
}

// Message is a batch of a publisher.
type Message struct {
	Topic    string // "" if it came by the replay of an older engine, which omits it, and no live message has come yet
	Sequence uint64
	Payload  []byte // for a kvevents.Decoder; valid until the next call of Next
	// Reset, if not 0, means: forget everything that this publisher sent before this message.
	Reset Reset
}

// SubscriberOptions says which publisher a Subscriber follows.
type SubscriberOptions struct {
	// Events is where the publisher sends batches: tcp://host:port or ipc:///path. "": tcp://127.0.0.1:5557.
	Events string
	// Replay is where it resends them; engines use port 5558. "": nowhere, and each gap is a loss.
	Replay string
	// Topic is a prefix of the topics to receive. "": all.
	Topic string
	// MessageBytes limits a message; a publisher that sends a larger one is disconnected. 0: 64 MiB.
	MessageBytes int

	times times
}

// times are how long things take; tests have short ones.
type times struct {
	handshake, pong   time.Duration // most time for either
	idle, mostIdle    time.Duration // without a message, after which a replay is asked whether there is one
	stall, replay     time.Duration // most time that a replay takes for a message, and for all
	pause             time.Duration // within an answer, after which the rest is asked for
	again, mostAgain  time.Duration // between connections to a publisher that is not there
	retry, mostRetry  time.Duration // between replays that are not answered
	replayMessages    int           // most of a replay
	skips, replayMore int           // stale messages before a replay is asked; attempts before a replay counts as dead
}

var usualTimes = times{
	handshake: 5 * time.Second, pong: time.Second, idle: time.Second, mostIdle: 16 * time.Second,
	stall: 10 * time.Second, pause: time.Second, replay: 2 * time.Minute, again: 50 * time.Millisecond, mostAgain: 5 * time.Second,
	retry: time.Second, mostRetry: 30 * time.Second, replayMessages: 1 << 20, skips: 16, replayMore: 3,
}
