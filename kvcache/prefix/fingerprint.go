package prefix

import "github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"

// Fingerprint is all that the content of blocks depends on besides their tokens and their scope.
// Blocks with different fingerprints have no key in common.
type Fingerprint struct {
	// Content is the sum of a text that describes the model and how its keys and values are stored;
	// see kvcache.Config.Content.
	Content Key
	// BlockTokens is the number of tokens of a block.
	BlockTokens int
	// Group names the layers whose keys and values a block has.
	Group string
}

// AllLayers is the Group of blocks that have all layers of their model.
const AllLayers = "all"

// Text is the canonical form of the fingerprint.
func (f Fingerprint) Text() string { return string(f.text()) }

// Key is the sum of Text.
func (f Fingerprint) Key() Key { return f.text().Sum() }

func (f Fingerprint) text() keytext.Text {
	t := keytext.New("blocks")
	t.Line("content", keytext.Bytes(f.Content[:]))
	t.Line("block-tokens", keytext.Number(f.BlockTokens))
	t.Line("group", keytext.Quote(f.Group))
	return t
}
