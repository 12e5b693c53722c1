package kind

import "github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"

// none is layers without keys, values or a state.
type none struct{ Base }

func (none) Name() string                         { return "none" }
func (k none) Content(t *keytext.Text, _ Numbers) { t.Line("layer-kind", k.Name()) }
