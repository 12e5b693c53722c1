package kind

import "github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"

// chunked sees its own chunk up to itself. In the paged layout a chunk is a sequence of its own, which no mask says.
type chunked struct{ Base }

func (chunked) Name() string    { return "chunked" }
func (chunked) Fields() []Field { return []Field{{"Chunk", 1}} }

func (k chunked) Content(t *keytext.Text, n Numbers) {
	t.Line("layer-kind", k.Name())
	t.Line("chunk", keytext.Number(n.Chunk))
}

func (chunked) Sees(n Numbers, position int) (sinks, first int) {
	return 0, position - position%max(n.Chunk, 1)
}

func (chunked) Most(n Numbers) int  { return n.Chunk }
func (chunked) Piece(n Numbers) int { return n.Chunk }

func (chunked) Mask(n Numbers, contiguous bool) (m Mask) {
	if contiguous {
		m.Chunk = n.Chunk
	}
	return m
}
