package prefix

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// marked is a naive model of a tree whose blocks depend on more than tokens: every
// block that was announced, by its key, under the key of its parent.
type marked map[Key]map[Key]markedBlock

type markedBlock struct {
	tokens []uint32
	mark
}

func (m marked) apply(bs int, events []Event) {
	for _, e := range events {
		parent := e.Parent
		for i, k := range e.Keys {
			if e.Kind == Removed {
				for _, blocks := range m {
					delete(blocks, k)
				}
				continue
			}
			b := markedBlock{tokens: e.Tokens[i*bs : min((i+1)*bs, len(e.Tokens))]}
			if e.Extra != nil {
				b.mark = mark{e.Extra[i], e.Fidelity[i]}
			}
			if m[parent] == nil {
				m[parent] = map[Key]markedBlock{}
			}
			m[parent][k] = b
			parent = k
		}
	}
}

// expect walks down as a reader would who sees everything: of the full blocks that
// fit it takes the most exact one, and after the last the longest beginning.
func (m marked) expect(bs int, q Query) (blocks, tail int, f Fidelity) {
	for at := (Key{}); blocks*bs < len(q.Tokens); blocks++ {
		var next Key
		best, tokens := Fidelity(255), q.tokens(blocks, bs)
		for k, b := range m[at] {
			if b.extra != q.extra(blocks) || b.fidelity&^q.Accept != 0 {
				continue
			}
			n := common(b.tokens, tokens)
			if n == bs && b.fidelity < best {
				next, best = k, b.fidelity
			}
			tail = max(tail, n)
		}
		if next == (Key{}) {
			return blocks, tail, f
		}
		at, tail, f = next, 0, f|best
	}
	return blocks, tail, f
}

// Histories of prompts with images, of lossy blocks after exact ones and the other way
// round, and of readers with every tolerance.
func TestMarksMatchModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bs := rapid.IntRange(1, 4).Draw(rt, "block size")
		r := newRig(t, 40, Config{BlockSize: bs, Policy: LRU})
		sub, _ := r.tree.Subscribe(10_000)
		model := marked{}
		draw := func() Query {
			q := Query{Tokens: rapid.SliceOfN(rapid.Uint32Range(1, 2), 0, 5*bs).Draw(rt, "tokens")}
			for range rapid.IntRange(0, 5).Draw(rt, "extras") {
				q.Extra = append(q.Extra, Key{rapid.ByteRange(0, 1).Draw(rt, "extra")})
			}
			q.Accept = Fidelity(rapid.ByteRange(0, 3).Draw(rt, "fidelity"))
			return q
		}
		for range 40 {
			q := draw()
			switch rapid.IntRange(0, 7).Draw(rt, "operation") {
			case 0:
				r.tree.Evict(rapid.IntRange(0, r.alloc.Cached()).Draw(rt, "evict"), r.root)
			case 1:
				if blocks, m := r.tree.Lookup(nil, r.root, q); m.Blocks > 0 {
					require.True(rt, r.tree.Forget(blocks[rapid.IntRange(0, m.Blocks-1).Draw(rt, "forget")]))
				}
			default:
				r.release(r.hold(Path{Root: r.root, Extra: q.Extra, Fidelity: q.Accept}, q.Tokens))
			}
			model.apply(bs, listen(sub))
			q = draw()
			blocks, tail, f := model.expect(bs, q)
			got, m := r.tree.Lookup(nil, r.root, q)
			require.Equal(rt, fmt.Sprint(blocks, tail), fmt.Sprint(m.Blocks, m.Tail), "%+v", q)
			require.Len(rt, got, m.all())
			if tail == 0 {
				require.Equal(rt, f, m.Fidelity)
			}
			require.Zero(rt, m.Fidelity&^q.Accept)
			require.NoError(rt, r.tree.Check())
		}
	})
}
