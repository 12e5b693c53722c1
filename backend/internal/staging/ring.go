// Package staging moves bytes between the host and a device through a ring of
// page-locked memory, which the device reads and writes on its own: an upload's
// source may be reused at once, and a transfer of any size is copied by the host
// and by the device at the same time.
package staging

// A ring is Chunks pieces of ChunkSize bytes: small enough that every queue can
// have one, large enough that a long transfer keeps both sides busy.
const (
	Chunks    = 4
	ChunkSize = 512 << 10
)

// align is where pieces start in a chunk.
const align = 64

// Queue is the device queue that a ring belongs to.
type Queue interface {
	// Pin returns page-locked host memory. It is asked once.
	Pin(size int) ([]byte, error)
	// Mark sets chunk's marker to the queue's present end, replacing an earlier one.
	Mark(chunk int) error
	// Reach waits until the queue has passed chunk's marker.
	Reach(chunk int) error
}

// Ring is the staging memory of one queue. Like the queue, it is used by one
// goroutine at a time. It allocates nothing once it has its memory.
type Ring struct {
	queue   Queue
	mem     []byte       // nil until the first transfer
	chunk   int          // the one in use
	used    int          // bytes of it
	pending [Chunks]bool // marked, and perhaps not yet passed
}

// New returns a ring on a queue. It has no memory yet.
func New(q Queue) Ring { return Ring{queue: q} }

// Memory is the ring's page-locked memory, for the device to give back; nil if
// there was no transfer.
func (r *Ring) Memory() []byte { return r.mem }

// Upload passes src to the device: send enqueues the copy of a piece, which holds
// src[at:at+len(piece)] and stays as it is until the queue has passed the copy. src
// may be reused at return. After an error of send the pieces before it are enqueued.
func (r *Ring) Upload(src []byte, send func(piece []byte, at int) error) error {
	for at := 0; at < len(src); {
		piece, err := r.room(len(src) - at)
		if err != nil {
			return err
		}
		copy(piece, src[at:])
		r.take(len(piece))
		if err := send(piece, at); err != nil {
			return err
		}
		at += len(piece)
	}
	return nil
}

// landing is a piece that the device is writing.
type landing struct {
	chunk int
	piece []byte
}

// Download fills dst: fetch enqueues the copy of len(piece) bytes from at on into
// the piece. At return the queue has passed everything that was enqueued before,
// unless dst is empty.
func (r *Ring) Download(dst []byte, fetch func(piece []byte, at int) error) error {
	if len(dst) == 0 {
		return nil
	}
	var flying [Chunks]landing
	first, n := 0, 0 // the oldest of flying, and how many there are
	asked, done := 0, 0
	for done < len(dst) {
		for asked < len(dst) && n < Chunks {
			piece, err := r.room(len(dst) - asked)
			if err != nil {
				return err
			}
			r.take(len(piece))
			if err := fetch(piece, asked); err != nil {
				return err
			}
			if err := r.mark(); err != nil {
				return err
			}
			flying[(first+n)%Chunks] = landing{r.chunk, piece}
			asked, n = asked+len(piece), n+1
		}
		oldest := flying[first]
		if err := r.queue.Reach(oldest.chunk); err != nil {
			return err
		}
		done += copy(dst[done:], oldest.piece)
		first, n = (first+1)%Chunks, n-1
	}
	r.chunk, r.used, r.pending = 0, 0, [Chunks]bool{}
	return nil
}

// room is memory for up to want bytes, at least one, that the device does not use.
func (r *Ring) room(want int) ([]byte, error) {
	if r.mem == nil {
		mem, err := r.queue.Pin(Chunks * ChunkSize)
		if err != nil {
			return nil, err
		}
		r.mem = mem
	}
	if r.used == ChunkSize {
		if err := r.mark(); err != nil {
			return nil, err
		}
		next := (r.chunk + 1) % Chunks
		if r.pending[next] {
			if err := r.queue.Reach(next); err != nil {
				return nil, err
			}
			r.pending[next] = false
		}
		r.chunk, r.used = next, 0
	}
	return r.mem[r.chunk*ChunkSize:][r.used:min(r.used+want, ChunkSize)], nil
}

// take makes n bytes of the room unavailable.
func (r *Ring) take(n int) { r.used = min((r.used+n+align-1)/align*align, ChunkSize) }

func (r *Ring) mark() error {
	err := r.queue.Mark(r.chunk)
	r.pending[r.chunk] = err == nil
	return err
}
