package main

import "github.com/ferrumkv/ferrumkv/kvcache"

// benchLists are the values that bench runs through; every combination is a row.
type benchLists struct {
	kernels, dtypes, layouts          []string
	batch, context                    []int
	qHeads, kvHeads, headDim, threads []int
	blockSize                         []int
}

// shapes is every combination but those of the kernels and threads, each once:
// the block size does not multiply the contiguous ones.
func (l benchLists) shapes() ([]shape, error) {
	var out []shape
	for _, layout := range l.layouts {
		parsed, err := parseLayout(layout)
		if err != nil {
			return nil, err
		}
		sizes := l.blockSize
		if parsed == kvcache.Contiguous {
			sizes = []int{0}
		}
		all := []shape{{Layout: layout}}
		all = expand(all, l.dtypes, func(s *shape, v string) { s.DType = v })
		all = expand(all, l.batch, func(s *shape, v int) { s.Batch = v })
		all = expand(all, l.context, func(s *shape, v int) { s.Context = v })
		all = expand(all, l.qHeads, func(s *shape, v int) { s.QHeads = v })
		all = expand(all, l.kvHeads, func(s *shape, v int) { s.KVHeads = v })
		all = expand(all, l.headDim, func(s *shape, v int) { s.HeadDim = v })
		all = expand(all, sizes, func(s *shape, v int) { s.BlockSize = v })
		out = append(out, all...)
	}
	for i := range out {
		if err := out[i].check(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// expand gives every shape each of the values.
func expand[T any](shapes []shape, values []T, set func(*shape, T)) []shape {
	var out []shape
	for _, s := range shapes {
		for _, v := range values {
			set(&s, v)
			out = append(out, s)
		}
	}
	return out
}
