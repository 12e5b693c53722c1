package cpu

import "unsafe"

// largeCopy is the bytes from which on what a call writes goes around the caches: most of it
// would have left them before it is read, and to go around saves to read it first.
const largeCopy = 1 << 20

// move copies memory that does not overlap, around the caches where that is asked for.
func (k *kernels) move(dst, src []byte, around bool) { k.scatter(dst, 0, src, len(dst), around) }

// scatter copies src piece by piece to where pieces are stride apart.
func (k *kernels) scatter(dst []byte, stride int, src []byte, piece int, around bool) {
	if around {
		k.stream(dst, stride, src, piece)
	} else {
		scatter(dst, stride, src, piece)
	}
}

func scatter(dst []byte, stride int, src []byte, piece int) {
	for at := 0; len(src) > 0; at, src = at+stride, src[piece:] {
		copy(dst[at:][:piece], src)
	}
}

// copyTask is one large copy. Its parts are pieces of it.
type copyTask struct {
	k        *kernels
	dst, src []byte
}

// copyPiece is the bytes of a part.
const copyPiece = 1 << 18

// copy copies memory that may overlap, large pieces over all workers.
func (be *Backend) copy(dst, src []byte) error {
	if len(dst) < largeCopy || overlap(dst, src) {
		copy(dst, src)
		return nil
	}
	c := be.pool.borrow(extent{})
	defer giveBack(be.pool, c, &c.copy)
	c.copy = copyTask{be.kernels, dst, src}
	return be.pool.run(&c.copy, ceilDiv(len(dst), copyPiece), 2*len(dst), c.scratch)
}

func (t *copyTask) part(i int, _ *scratch) {
	begin := i * copyPiece
	end := min(begin+copyPiece, len(t.dst))
	t.k.move(t.dst[begin:end], t.src[begin:end], true)
	t.k.fence()
}

// overlap reports whether two pieces of memory of one length share bytes.
func overlap(a, b []byte) bool {
	from, to := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return max(from, to)-min(from, to) < uintptr(len(a))
}
