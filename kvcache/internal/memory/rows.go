package memory

// Format is the size of a token as a codec stores it.
type Format struct {
	Codes int // elements of whatever type codes have: those of a plain row are its elements
	Words int // scales and the like beside them, of 32 bits; plain rows have none
}

// Rows are stored tokens, or a part of one: their codes, one after another, and their words.
type Rows[E any] struct {
	Codes []E
	Words []uint32
}

// Copy makes r what from is, which has the same size.
func (r Rows[E]) Copy(from Rows[E]) {
	copy(r.Codes, from.Codes)
	copy(r.Words, from.Words)
}
