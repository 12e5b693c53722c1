package runner

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// parseCheckpoint reads a llama2.c checkpoint of version 0: seven i32 and then, in a fixed order, all weights in f32, those of
// a kind for all layers back to back. The size of the file follows from the header and must agree.
func parseCheckpoint(f file) (Config, *archive) {
	a := newArchive(&reader{file: f})
	if a.u32("header") == 0x616b3432 { // later versions begin with the letters ak42
		a.keep(f.unsupported("version %d of the llama2.c checkpoint", a.u32("version")))
	}
	a.at = 0
	field := func(name string) int { return int(int32(a.u32(name))) }
	c := Config{Dim: field("dim"), Block: Block{Hidden: field("hidden_dim"), Act: "silu", RoPE: backend.RoPE{Pairing: backend.Interleaved}},
		Layers: field("n_layers"), Eps: 1e-5, BOS: 1, EOS: []uint32{2}, Names: huggingFace}
	c.Heads, c.KVHeads, c.Vocab, c.Context = field("n_heads"), field("n_kv_heads"), field("vocab_size"), field("seq_len")
	if c.Tied = c.Vocab > 0; !c.Tied {
		c.Vocab = -c.Vocab
	}
	if c.Heads < 1 || c.Dim%c.Heads != 0 {
		a.fail("n_heads", "have %d, which does not divide the dim %d", c.Heads, c.Dim)
	}
	c.HeadDim = c.Dim / max(c.Heads, 1)
	if a.keep(c.check(f)); a.err != nil {
		return c, a
	}

	add := func(name string, shape ...int) {
		a.add(tensor{name: name, encoding: "F32", shape: shape, begin: a.at})
		a.at += len(a.tensors[name].data)
	}
	each := func(part string, shape ...int) {
		for l := 0; l < c.Layers && a.err == nil; l++ {
			add(fmt.Sprintf(huggingFace.layer, l, part)+".weight", shape...)
		}
	}
	n, kv := huggingFace, c.KVHeads*c.HeadDim
	add(n.embed+".weight", c.Vocab, c.Dim)
	each(n.attnNorm, c.Dim)
	each(n.q, c.Dim, c.Dim)
	each(n.k, kv, c.Dim)
	each(n.v, kv, c.Dim)
	each(n.o, c.Dim, c.Dim)
	each(n.ffnNorm, c.Dim)
	each(n.ffn+n.gate, c.Hidden, c.Dim)
	each(n.ffn+n.down, c.Dim, c.Hidden)
	each(n.ffn+n.up, c.Hidden, c.Dim)
	add(n.norm+".weight", c.Dim)
	add("rotations", c.Context, c.HeadDim) // tables that nobody needs
	if !c.Tied {
		add(n.output+".weight", c.Vocab, c.Dim)
	}
	if a.left() != 0 {
		a.fail("size", "%d bytes follow the weights that the header describes", a.left())
	}
	return c, a
}
