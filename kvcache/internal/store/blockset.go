package store

import "github.com/ferrumkv/ferrumkv/backend"

// BlockSet returns the store's layers as planes whose blocks go to host memory together: of each layer keys, their scales,
// values, their scales, and the scores that are kept. A block of the store is Each blocks of the set. free ends the views
// that it is made of; the set is closed before.
func (st *Store[B]) BlockSet(be backend.Backend[B]) (set backend.BlockSet, free func(), err error) {
	var planes []backend.BlockPlane[B]
	var views []B
	free = func() {
		for _, v := range views {
			_ = be.Free(v) // ours and live
		}
	}
	add := func(b B, each int) { planes = append(planes, backend.BlockPlane[B]{Buf: b, Each: each}) }
	for _, l := range st.Layers {
		v := &l.View
		for _, p := range []backend.Plane[B]{v.K, v.V} {
			if p.Data.DType() == backend.Invalid { // values that are parts of the keys
				continue
			}
			add(p.Data, v.KVHeads*v.BlockSize*p.Dim)
			dt := p.Data.DType()
			scale, n, _ := dt.Scales(1, v.KVHeads, v.BlockSize, p.Dim)
			if n == 0 || dt.Coding().Scope == backend.ByHead { // or they are the configuration's
				continue
			}
			scales, head := p.Scales.Buf, dt.HeadWords(v.KVHeads)
			if n -= head; head > 0 {
				if scales, err = be.SubBuffer(scales, int64(head*scale.Bits()/8), scale, scales.Len()-head); err != nil {
					free()
					return nil, nil, err
				}
				views = append(views, scales)
			}
			add(scales, n)
		}
		if l.Scores.Set {
			add(l.Scores.Buf, v.KVHeads*v.BlockSize)
		}
	}
	if set, err = backend.NewBlockSet(be, planes); err != nil {
		free()
		return nil, nil, err
	}
	return set, free, nil
}

// Each is how many blocks of a kernel, or of a BlockSet, make one block.
func (st *Store[B]) Each() int { return st.each }
