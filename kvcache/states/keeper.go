package states

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
)

// keeper stores chunks of a Put while the next ones are read and cut: what takes time is to sum and to write them.
type keeper struct {
	s    *Store
	salt string
	jobs chan cutChunk
	free chan []byte // room for a chunk

	workers int
	all     sync.WaitGroup
	mu      sync.Mutex
	kept    []keptChunk
	failure error
}

// cutChunk is the chunk of a place in a part.
type cutChunk struct {
	part, place int
	plain       []byte
}

type keptChunk struct {
	part, place int
	chunk
}

// mostKeepers is how many goroutines store chunks of a Put.
const mostKeepers = 4

func newKeeper(s *Store, salt string) *keeper {
	workers := min(runtime.GOMAXPROCS(0), mostKeepers)
	return &keeper{s: s, salt: salt, jobs: make(chan cutChunk, workers), free: make(chan []byte, 2*workers+1)}
}

// put has a chunk stored, of which it makes a copy. The error is that of one before it.
func (k *keeper) put(part, place int, plain []byte) error {
	k.mu.Lock()
	err := k.failure
	k.mu.Unlock()
	if err != nil {
		return err
	}
	var room []byte
	select {
	case room = <-k.free:
	default:
		room = make([]byte, 0, k.s.o.sizes.max)
	}
	job := cutChunk{part, place, append(room[:0], plain...)}
	select {
	case k.jobs <- job:
		if k.workers == 0 {
			k.start()
		}
	default: // all have enough to do
		if k.workers < cap(k.jobs) {
			k.start()
		}
		k.jobs <- job
	}
	return nil
}

func (k *keeper) start() {
	k.workers++
	k.all.Go(func() {
		w, room := k.s.work(k.salt), make([]byte, k.s.o.sizes.max)
		defer k.s.coders.Put(w)
		for job := range k.jobs {
			k.keep(w, job, room)
			k.free <- job.plain // has room for all there are
		}
	})
}

func (k *keeper) keep(w *coder, job cutChunk, room []byte) {
	k.mu.Lock()
	err := k.failure
	k.mu.Unlock()
	if err != nil {
		return
	}
	c, err := k.s.keep(w, job.plain, room)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.kept = append(k.kept, keptChunk{job.part, job.place, c})
	} else if k.failure == nil {
		k.failure = err
	}
}

// wait ends it, and gives the state the chunks that were stored, in their order: all, or those before and after one that failed.
func (k *keeper) wait(st *state) error {
	close(k.jobs)
	k.all.Wait()
	slices.SortFunc(k.kept, func(a, b keptChunk) int { return cmp.Or(a.part-b.part, a.place-b.place) })
	st.chunks = make([][]chunk, len(st.Parts))
	for _, c := range k.kept {
		st.chunks[c.part] = append(st.chunks[c.part], c.chunk)
	}
	return k.failure
}
