package bench

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
)

// arenas is the memory of all trials, by its use.
type arenas [3]*arena

// views is a source of buffers over pieces of arenas, which belong to a device until the next
// calls get theirs. Many trials share the arenas.
type views struct {
	be    *cpu.Backend
	from  *arenas
	takes []func(n int) error // the pieces of a call, added to those of n calls before
	bufs  []*cpu.Buffer
}

// aim makes the buffers of the next n calls.
func (v *views) aim(n int) error {
	if err := v.free(); err != nil {
		return err
	}
	for i := range n {
		for _, take := range v.takes {
			if err := take(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// free ends all views.
func (v *views) free() error {
	var errs []error
	for _, b := range v.bufs {
		errs = append(errs, v.be.Free(b))
	}
	v.bufs = v.bufs[:0]
	return errors.Join(errs...)
}

// of is the first n elements of a piece.
func (v *views) of(piece []byte, dt backend.DType, n int) (*cpu.Buffer, error) {
	b, err := v.be.Import(backend.Handle{Host: piece}, dt, n)
	if err == nil {
		v.bufs = append(v.bufs, b)
	}
	return b, err
}

func (v *views) layer(l layer, u use) func(turn int) backend.CacheView[*cpu.Buffer] {
	return collect(v, func() (backend.CacheView[*cpu.Buffer], error) {
		piece, c := v.from[u].take(l.place()), view[*cpu.Buffer](l)
		var err error
		for i, dt := range l.planes() {
			p := [...]*backend.Plane[*cpu.Buffer]{&c.K, &c.V}[i]
			p.Dim = l.dim
			if p.Data, err = v.of(piece, dt, l.slots*l.width()); err != nil {
				return c, err
			}
			piece = piece[pages(l.elements(dt)):]
			if words, n, _ := dt.Scales(l.blocks(), l.kv, l.block, l.dim); n > 0 {
				b, err := v.of(piece, words, n)
				if err != nil {
					return c, err
				}
				p.Scales = backend.Some(b)
				piece = piece[pages(l.scales(dt)):]
			}
		}
		return c, nil
	})
}

func (v *views) rows(dt backend.DType, n int, u use) func(turn int) *cpu.Buffer {
	bytes, _ := dt.Size(n)
	return collect(v, func() (*cpu.Buffer, error) { return v.of(v.from[u].take(int(bytes)), dt, n) })
}

// collect takes a piece for each call that v aims.
func collect[T any](v *views, take func() (T, error)) func(turn int) T {
	var taken []T
	v.takes = append(v.takes, func(n int) error {
		piece, err := take()
		taken = append(taken[:n], piece)
		return err
	})
	return func(turn int) T { return taken[turn] }
}
