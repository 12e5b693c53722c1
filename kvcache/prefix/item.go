package prefix

import "github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"

// Item is a part of a prompt that is not text, such as an image. The placeholder tokens of all
// images are equal, so the item's hash becomes part of the keys of the blocks that it overlaps.
type Item struct {
	Begin, End int    // token range in the prompt
	Hash       []byte // of its content
}

// ItemKeys computes Query.Extra for a prompt with items: a key for each block that an item
// overlaps, and the zero Key for the others. Ranges are cut to the prompt; empty ones do not count.
// The order of items counts. A key also depends on where the item begins and ends relative to the
// block.
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
