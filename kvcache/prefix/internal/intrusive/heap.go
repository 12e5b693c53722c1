package intrusive

import "slices"

// Heap is a binary heap, the first element at its top.
type Heap[E comparable] struct {
	items  []E
	before func(a, b E) bool
	place  func(E) *int32
}

// NewHeap returns an empty heap in the order of before. place is where an element keeps its place, from 1 on; 0: in no heap.
func NewHeap[E comparable](before func(a, b E) bool, place func(E) *int32) Heap[E] {
	return Heap[E]{before: before, place: place}
}

// All is the elements in no order, until the heap changes.
func (h *Heap[E]) All() []E { return h.items }

// Has reports whether an element is in.
func (h *Heap[E]) Has(e E) bool {
	i := *h.place(e)
	return i > 0 && int(i) <= len(h.items) && h.items[i-1] == e
}

// Top is the first element, the zero value where there is none.
func (h *Heap[E]) Top() (e E) {
	if len(h.items) > 0 {
		e = h.items[0]
	}
	return e
}

// Put brings an element to its place, whether it is new or has changed.
func (h *Heap[E]) Put(e E) {
	i := int(*h.place(e)) - 1
	if i < 0 {
		i = len(h.items)
		h.items = append(h.items, e)
	}
	for i > 0 && h.before(e, h.items[(i-1)/2]) {
		h.set(i, h.items[(i-1)/2])
		i = (i - 1) / 2
	}
	for c := 2*i + 1; c < len(h.items); c = 2*i + 1 {
		if c+1 < len(h.items) && h.before(h.items[c+1], h.items[c]) {
			c++
		}
		if !h.before(h.items[c], e) {
			break
		}
		h.set(i, h.items[c])
		i = c
	}
	h.set(i, e)
}

func (h *Heap[E]) set(i int, e E) {
	h.items[i] = e
	*h.place(e) = int32(i + 1)
}

// Remove takes an element out, if it is in.
func (h *Heap[E]) Remove(e E) {
	place := h.place(e)
	i, last := int(*place)-1, len(h.items)-1
	if i < 0 {
		return
	}
	*place = 0
	end := h.items[last]
	h.items = slices.Delete(h.items, last, last+1)
	if i < last {
		*h.place(end) = int32(i + 1)
		h.Put(end)
	}
}
