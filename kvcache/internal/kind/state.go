package kind

import "github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"

// state computes a state from all tokens.
type state struct{ Base }

func (state) Name() string    { return "state" }
func (state) Fields() []Field { return []Field{{"StateBytes", 1}} }

func (k state) Content(t *keytext.Text, n Numbers) {
	t.Line("layer-kind", k.Name())
	t.Line("state-bytes", keytext.Number(n.StateBytes))
}
