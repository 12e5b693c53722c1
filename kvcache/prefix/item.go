package prefix

import "github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"

// Item is something in a prompt that is not text, an image above all: its
// placeholder tokens are the same for all images, so what it holds goes into the
// keys of the blocks that it overlaps.
type Item struct {
	Begin, End int    // token range in the prompt
	Hash       []byte // of its content
}

// ItemKeys is Query.Extra for a prompt with items: a key for each block that one
// overlaps, and the zero Key for the others. A range counts where it lies in the
// prompt, one without tokens does not, and items count in their order. A block's key has
// where the item begins and ends as seen from the block, so which part of it is there.
func ItemKeys(items []Item, tokens, blockSize int) []Key {
	var texts []keytext.Text
	for _, item := range items {
		if blockSize < 1 {
			break
		}
		begin, end, hash := max(item.Begin, 0), min(item.End, tokens), keytext.Bytes(item.Hash)
		for b := begin / blockSize; begin < end && b*blockSize < end; b++ {
			for len(texts) <= b {
				texts = append(texts, nil)
			}
			if texts[b] == nil {
				texts[b] = keytext.New("items")
			}
			texts[b].Line("item", keytext.Number(item.Begin-b*blockSize), keytext.Number(item.End-b*blockSize), hash)
		}
	}
	keys := make([]Key, len(texts))
	for i, t := range texts {
		if t != nil {
			keys[i] = t.Sum()
		}
	}
	return keys
}
