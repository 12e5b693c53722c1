// The log has the payloads of an epoch, from sequence 0 on. It is all that is queued: a subscriber or a replay is a position in it.

package pubsub

import "sync"

// overhead is what an entry of the log takes besides its payload.
const overhead = 24

// What a reader takes from the log at once is bounded: one that stalls keeps little of a log that is gone.
const (
	chunkEntries = 64
	chunkBytes   = 64 << 10
)

// log is read by the goroutines of the peers. No call holds the lock for long.
type log struct {
	mu       sync.Mutex
	epoch    uint64
	payloads [][]byte
	bytes    int64
}

// position is where a reader of the log is.
type position struct {
	epoch uint64
	next  uint64 // sequence number
}

func (l *log) append(payload []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.payloads = append(l.payloads, payload)
	l.bytes += int64(len(payload)) + overhead
}

// begin replaces the log by that of a new epoch.
func (l *log) begin(payloads [][]byte, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	l.payloads, l.bytes = payloads, bytes
}

// end is the position of what comes next.
func (l *log) end() position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return position{l.epoch, uint64(len(l.payloads))}
}

// take appends the next payloads to dst, up to some entries and bytes, and moves the position, which goes to 0 where another epoch has begun.
// first is the sequence number of the first of them.
func (l *log) take(at *position, dst [][]byte) (payloads [][]byte, first uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.epoch != l.epoch {
		*at = position{l.epoch, 0}
	}
	first = at.next
	for n := 0; at.next < uint64(len(l.payloads)) && len(dst) < chunkEntries && n < chunkBytes; at.next++ {
		p := l.payloads[at.next]
		if n += len(p); len(dst) > 0 && n > chunkBytes {
			break
		}
		dst = append(dst, p)
	}
	return dst, first
}

func (l *log) size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}
