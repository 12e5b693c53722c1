package prefix

// none is the end of a list.
const none = ^uint32(0)

// link is an element's place in a list: its neighbours' numbers.
type link struct{ prev, next uint32 }

// links finds the link of an element by its number.
type links func(uint32) *link

// list is a doubly linked list through its elements.
type list struct {
	head, tail uint32
	size       int
}

var empty = list{head: none, tail: none}

// push puts an element that is in no list at the back.
func (l *list) push(at links, i uint32) {
	*at(i) = link{l.tail, none}
	if l.tail == none {
		l.head = i
	} else {
		at(l.tail).next = i
	}
	l.tail = i
	l.size++
}

// pull takes an element out, from wherever it stands.
func (l *list) pull(at links, i uint32) {
	e := at(i)
	if e.prev == none {
		l.head = e.next
	} else {
		at(e.prev).next = e.next
	}
	if e.next == none {
		l.tail = e.prev
	} else {
		at(e.next).prev = e.prev
	}
	*e = link{none, none}
	l.size--
}
