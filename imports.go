package ferrumkv

import (
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
)

// imports are the slices that a step was given, as buffers of a device that computes on them where they lie. A runner
// uses the same slices in every step.
type imports map[memory]backend.AnyBuffer

type memory struct {
	data *float32
	n    int
}

// all are the buffers of rows. Where there are more than most slices all of them are forgotten, and these imported again.
func (m *imports) all(be backend.Backend[backend.AnyBuffer], most int, bufs *[4]backend.AnyBuffer, rows *[4][]float32) error {
	for again := 0; ; again++ {
		known := true
		for i, row := range rows {
			bufs[i] = (*m)[memory{unsafe.SliceData(row), len(row)}]
			known = known && bufs[i] != backend.AnyBuffer{}
		}
		if known || again > 0 {
			return nil
		}
		if len(*m)+len(rows) > most {
			if err := m.free(be); err != nil {
				return err
			}
		}
		for _, row := range rows {
			if err := m.add(be, row); err != nil {
				return err
			}
		}
	}
}

func (m *imports) add(be backend.Backend[backend.AnyBuffer], row []float32) error {
	key := memory{unsafe.SliceData(row), len(row)}
	if _, ok := (*m)[key]; ok {
		return nil
	}
	b, err := be.Import(backend.HostHandle(row), backend.F32, len(row))
	if err != nil {
		return err
	}
	if *m == nil {
		*m = imports{}
	}
	(*m)[key] = b
	return nil
}

// free forgets all of them.
func (m *imports) free(be backend.Backend[backend.AnyBuffer]) (err error) {
	for _, b := range *m {
		if failed := be.Free(b); err == nil {
			err = failed
		}
	}
	clear(*m)
	return err
}

// overlap reports whether two slices have an element in common.
func overlap(a, b []float32) bool {
	first := func(s []float32) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s))) }
	size := func(s []float32) uintptr { return uintptr(len(s)) * unsafe.Sizeof(float32(0)) }
	return len(a) > 0 && len(b) > 0 && first(a) < first(b)+size(b) && first(b) < first(a)+size(a)
}
