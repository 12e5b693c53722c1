// Keys: how tokens, and what else a block depends on, become a number.

package index

import (
	"encoding/binary"
	"hash/maphash"
	"sync"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// coder makes keys.
type coder struct {
	b     []byte
	seed  maphash.Seed
	reach reach // of Find
}

var coders = sync.Pool{New: func() any { return new(coder) }}

func (x *Index) coder() *coder {
	c := coders.Get().(*coder)
	c.seed = x.seed
	return c
}

// root is the key before the first block, of the model or of an adapter.
func (x *Index) root(loraName string) key { return key(maphash.String(x.seed, loraName)) }

func (c *coder) begin(before key) { c.b = binary.LittleEndian.AppendUint64(c.b[:0], uint64(before)) }

// tokens adds tokens; of pairs the first ones, which are those of the prompt.
func (c *coder) tokens(tokens []uint32, each int) {
	for i := 0; i < len(tokens); i += each {
		c.b = binary.LittleEndian.AppendUint32(c.b, tokens[i])
	}
}

// extra adds what a block depends on besides tokens. It differs from tokens by its length, since these come last, and always as many.
func (c *coder) extra(tag byte, s string) {
	c.b = append(binary.LittleEndian.AppendUint32(append(c.b, tag), uint32(len(s))), s...)
}

const (
	extraText = iota
	extraRaw
)

// extras adds the extra keys of block i of an event, but for the adapter's name, and SGLang's salt.
func (c *coder) extras(e *kvevents.Stored, i int) {
	if i < len(e.ExtraKeys) {
		c.keysOf(e.ExtraKeys[i], e.LoRAName)
	}
	if e.CacheSalt != "" && i == 0 && !follows(e) {
		c.extra(extraText, e.CacheSalt)
	}
}

// keysOf adds keys, but for the first that is the adapter's name.
func (c *coder) keysOf(keys []kvevents.Key, loraName string) {
	named := false
	for _, k := range keys {
		switch {
		case len(k.Raw) > 0:
			c.extra(extraRaw, string(k.Raw))
		case k.Text == loraName && !named:
			named = true
		default:
			c.extra(extraText, k.Text)
		}
	}
}

func (c *coder) key() key { return key(maphash.Bytes(c.seed, c.b)) }
