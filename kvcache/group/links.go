package group

// place is where a block is.
type place struct {
	at         uint32 // in the rows of the cache, +1; 0: nowhere
	prev, next uint32 // in a queue, +1
	queued     bool
}

// links is a queue of blocks by their numbers, through their places.
type links struct {
	first, last uint32 // +1
	n           int
}

func (l *links) push(of []place, id uint32) {
	p := &of[id]
	p.queued, p.prev, p.next = true, l.last, 0
	if l.last != 0 {
		of[l.last-1].next = id + 1
	} else {
		l.first = id + 1
	}
	l.last = id + 1
	l.n++
}

// remove takes a block out, if it is in the queue.
func (l *links) remove(of []place, id uint32) {
	p := &of[id]
	if !p.queued {
		return
	}
	if p.prev != 0 {
		of[p.prev-1].next = p.next
	} else {
		l.first = p.next
	}
	if p.next != 0 {
		of[p.next-1].prev = p.prev
	} else {
		l.last = p.prev
	}
	p.queued, p.prev, p.next = false, 0, 0
	l.n--
}
