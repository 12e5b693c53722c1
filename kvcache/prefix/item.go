package prefix

// Item is something in a prompt that is not text, an image above all: its
// placeholder tokens are the same for all images, so what it holds goes into the
// keys of the blocks that it overlaps.
type Item struct {
	Begin, End int    // token range in the prompt
	Hash       []byte // of its content
}

// ItemKeys is Query.Extra for a prompt with items: a key for each block that one
// overlaps, and the zero Key for the others. A range counts where it lies in the
// prompt, one without tokens does not, and items count in their order.
func ItemKeys(items []Item, tokens, blockSize int) []Key {
	var digests []digest
	for _, item := range items {
		if blockSize < 1 {
			break
		}
		begin, end := max(item.Begin, 0), min(item.End, tokens)
		for b := begin / blockSize; begin < end && b*blockSize < end; b++ {
			for len(digests) <= b {
				digests = append(digests, digest{})
			}
			if digests[b].h == nil {
				digests[b] = newDigest("ferrumkv items 1")
			}
			digests[b].number(item.Begin - b*blockSize)
			digests[b].number(item.End - b*blockSize)
			digests[b].optional(item.Hash)
		}
	}
	keys := make([]Key, len(digests))
	for i, d := range digests {
		if d.h != nil {
			keys[i] = d.sum()
		}
	}
	return keys
}
