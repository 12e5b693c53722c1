// Package intrusive has lists and heaps whose elements keep their own places: any element can move or leave at any time, and a
// collection of many takes no memory of its own.
package intrusive

// None is the number of no element: the end of a list.
const None = ^uint32(0)

// Link is an element's place in a list: its neighbours' numbers. An element is found by its number in a slice of links.
type Link struct{ prev, next uint32 }

// Next is the number of the element after this one.
func (l Link) Next() uint32 { return l.next }

// List is a doubly linked list of elements that have numbers.
type List struct {
	head, tail uint32
	size       int
}

// Empty is a list of nothing. The zero List is not an empty list.
var Empty = List{head: None, tail: None}

// Front is the first element; None: there is none.
func (l *List) Front() uint32 { return l.head }

// Len is the number of elements.
func (l *List) Len() int { return l.size }

// Push puts an element that is in no list at the back.
func (l *List) Push(links []Link, i uint32) {
	links[i] = Link{l.tail, None}
	if l.tail == None {
		l.head = i
	} else {
		links[l.tail].next = i
	}
	l.tail = i
	l.size++
}

// Pull takes an element out, from wherever it stands.
func (l *List) Pull(links []Link, i uint32) {
	e := links[i]
	if e.prev == None {
		l.head = e.next
	} else {
		links[e.prev].next = e.next
	}
	if e.next == None {
		l.tail = e.prev
	} else {
		links[e.next].prev = e.prev
	}
	l.size--
}

// All is the elements in their order, for tests and debugging; ok is false if they are not what the list has.
func (l *List) All(links []Link) (all []uint32, ok bool) {
	prev := None
	for i := l.head; i != None; prev, i = i, links[i].next {
		if links[i].prev != prev || len(all) == l.size {
			return all, false
		}
		all = append(all, i)
	}
	return all, len(all) == l.size && l.tail == prev
}
