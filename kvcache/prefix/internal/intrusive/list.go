// Package intrusive has lists and heaps that run through their elements, which keep their own places:
// any element can move or leave at any time, and a collection of many takes no memory of its own.
package intrusive

// None is the number of no element: the end of a list.
const None = ^uint32(0)

// Link is an element's place in a list: its neighbours' numbers.
type Link struct{ Prev, Next uint32 }

// Links finds the link of an element by its number.
type Links func(uint32) *Link

// List is a doubly linked list of elements that have numbers.
type List struct {
	head, tail uint32
	size       int
}

// Empty is a list of nothing. The zero List is none.
var Empty = List{head: None, tail: None}

// Front is the first element; None: there is none.
func (l *List) Front() uint32 { return l.head }

// Len is the number of elements.
func (l *List) Len() int { return l.size }

// Push puts an element that is in no list at the back.
func (l *List) Push(at Links, i uint32) {
	*at(i) = Link{l.tail, None}
	if l.tail == None {
		l.head = i
	} else {
		at(l.tail).Next = i
	}
	l.tail = i
	l.size++
}

// Pull takes an element out, from wherever it stands.
func (l *List) Pull(at Links, i uint32) {
	e := at(i)
	if e.Prev == None {
		l.head = e.Next
	} else {
		at(e.Prev).Next = e.Next
	}
	if e.Next == None {
		l.tail = e.Prev
	} else {
		at(e.Next).Prev = e.Prev
	}
	*e = Link{None, None}
	l.size--
}
