package bench

// page is what places in an arena are multiples of.
const page = 4096

// arena is host memory that calls go through in a circle, so that none finds what it wants in a
// cache: between two uses of a byte at least as many others are used as the arena is longer
// than its longest piece.
type arena struct {
	mem  []byte
	next int // offset of the next place
}

// take is the next n bytes. A piece that does not fit begins the next lap: then what lies at
// the front was used long ago, as the rest is shorter than the longest piece.
func (a *arena) take(n int) []byte {
	n = pages(n)
	if a.next+n > len(a.mem) {
		a.next = 0
	}
	piece := a.mem[a.next:][:n:n]
	a.next += n
	return piece
}

// pages is n, rounded up to whole pages.
func pages(n int) int { return (n + page - 1) / page * page }
