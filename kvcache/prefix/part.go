package prefix

import (
	"crypto/sha256"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
)

// Part names blocks that have some of a model's layers, of a pool whose layers do not all keep the same (Model.Groups). The
// entries of its tree have keys as blocks of all layers do, and each block with an entry one that follows from that and from
// its Part: see Key.Part.
type Part struct {
	Blocks Key    // that of the Fingerprint
	Kind   string // of what the layers keep: full, window, chunked, state
	Layers []int  // of the model
	// Begin and End are the tokens of the entry that the block has, the first one and that after the last; of a state all of them.
	Begin, End int
	// Pieces is how many pieces the bytes of a block are in, each of which has all layers one after another.
	Pieces int
}

// Text is the canonical form.
func (p Part) Text() string { return string(p.text()) }

// Key is the sum of Text.
func (p Part) Key() Key { return p.text().Sum() }

func (p Part) text() keytext.Text {
	layers := make([]string, 0, len(p.Layers)+1)
	layers = append(layers, keytext.Number(len(p.Layers)))
	for _, l := range p.Layers {
		layers = append(layers, keytext.Number(l))
	}
	t := keytext.New("part")
	t.Line("blocks", keytext.Bytes(p.Blocks[:]))
	t.Line("kind", p.Kind)
	t.Line("layers", strings.Join(layers, " "))
	t.Line("tokens", keytext.Number(p.Begin), keytext.Number(p.End))
	t.Line("pieces", keytext.Number(p.Pieces))
	return t
}

// Part is the key of the block that an entry, whose key is k, has of a part.
func (k Key) Part(part Key) Key {
	var buf [1 + 2*sha256.Size]byte
	buf[0] = 'P'
	copy(buf[1:], k[:])
	copy(buf[1+len(k):], part[:])
	return sha256.Sum256(buf[:])
}
