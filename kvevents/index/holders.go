// Which owners have a block of tokens, on which media.

package index

import (
	"strings"
)

// medium is the number of a medium; "" is the device. The first has no name, and stands for all beyond the bound.
func (x *Index) medium(name string) uint16 {
	if name == "" {
		name = "gpu"
	}
	for i := range x.media {
		if strings.EqualFold(x.media[i].name, name) {
			return uint16(i)
		}
	}
	if len(x.media) >= mostMedia || len(name) > 64 {
		return 0
	}
	x.media = append(x.media, medium{strings.ToLower(name), 1})
	return uint16(len(x.media) - 1)
}

// hold notes that an owner has the tokens of a block on one more place of a medium; drop that it has them on one fewer.
func (x *Index) hold(o *owner, b *block, medium uint16) {
	for _, k := range b.keys {
		x.holds[k] = add(x.holds[k], o, medium)
	}
}

func add(hs []holder, o *owner, medium uint16) []holder {
	for i := range hs {
		if hs[i].owner == o && hs[i].medium == medium {
			hs[i].n++
			return hs
		}
	}
	return append(hs, holder{o, medium, 1})
}

func (x *Index) drop(o *owner, b *block, medium uint16) {
	for _, k := range b.keys {
		hs := x.holds[k]
		for i := range hs {
			if hs[i].owner == o && hs[i].medium == medium {
				if hs[i].n--; hs[i].n == 0 {
					hs[i] = hs[len(hs)-1]
					hs[len(hs)-1] = holder{}
					hs = hs[:len(hs)-1]
				}
				break
			}
		}
		if len(hs) == 0 {
			delete(x.holds, k)
		} else {
			x.holds[k] = hs
		}
	}
}
