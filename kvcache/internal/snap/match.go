package snap

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// match finds the planes of the pool in those of the stream.
func (in *In[B]) match() error {
	in.planes = make([][]pair, len(in.Head.Strips))
	for to, s := range in.strips {
		h := slices.IndexFunc(in.homes, func(h home[B]) bool { return h.of == s.of })
		if h < 0 {
			h = len(in.homes)
			in.homes = append(in.homes, home[B]{of: s.of})
		}
		in.homes[h].strips = append(in.homes[h].strips, to)
		begins := map[int]map[[2]int]int{} // by strip of the stream, layer and plane of it: where it begins
		for l := range s.Layers {
			from, layer, err := in.find(s, l)
			if err != nil {
				return err
			}
			if begins[from] == nil {
				begins[from] = map[[2]int]int{}
			}
			have := in.Head.Strips[from].Layers[layer].Planes
			for i, p := range s.Layers[l].Planes {
				at := slices.IndexFunc(have, func(o snapshot.Plane) bool { return o.Role == p.Role })
				if at < 0 && p.Role == snapshot.Scores { // they begin at 0
					continue
				}
				if at < 0 || have[at] != p {
					what := "absent"
					if at >= 0 {
						what = said(&have[at])
					}
					return snapshot.ErrMismatch{Field: p.Role.String(), Layer: s.Layers[l].Number, Have: what, Want: said(&p)}
				}
				begins[from][[2]int{layer, at}] = s.pieces.Begins[l][i]
			}
		}
		for from := range in.Head.Strips {
			if begins[from] == nil {
				continue
			}
			planes := between(&in.Head.Strips[from], func(l, p int) (at int, is bool) {
				at, is = begins[from][[2]int{l, p}]
				return at, is
			})
			bytes := 0
			for i := range planes {
				bytes += s.bytes(&planes[i])
			}
			in.planes[from] = append(in.planes[from], pair{to, planes, bytes == s.pieces.Bytes})
			if !slices.Contains(in.homes[h].from, from) {
				in.homes[h].from = append(in.homes[h].from, from)
			}
		}
	}
	return nil
}

// find is the strip of the stream that has a layer of one of the pool, and where.
func (in *In[B]) find(s *strip[B], l int) (from, layer int, err error) {
	number := s.Layers[l].Number
	for from := range in.Head.Strips {
		f := &in.Head.Strips[from]
		layer := slices.IndexFunc(f.Layers, func(o snapshot.Layer) bool { return o.Number == number })
		if f.Kind == s.Kind && layer >= 0 {
			return from, layer, nil
		}
	}
	return 0, 0, snapshot.ErrMismatch{Field: "strips", Layer: number, Have: "none of kind " + s.Kind.String(), Want: "needed"}
}

func said(p *snapshot.Plane) string {
	return fmt.Sprintf("%d heads of %d bytes a %s", p.Heads, p.Bytes, [...]string{"row", "chunk", "layer"}[p.Per])
}
