package config

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
)

// What a group asks its kind: see package kind.

func (g *Group) numbers() kind.Numbers {
	return kind.Numbers{Window: g.Window, Sinks: g.Sinks, Chunk: g.Chunk, StateBytes: g.StateBytes}
}

func (g *Group) keeps() kind.Keeps { return kind.Of(g.Kind).Keeps }

// attends reports whether the group's layers have keys and values.
func (g *Group) attends() bool { return g.keeps().Rows() }

// checkNumbers checks that the group has the numbers that its kind takes, and no others.
func (g *Group) checkNumbers(name string) error {
	numbers := g.numbers()
	for _, field := range [...]string{"Window", "Sinks", "Chunk", "StateBytes"} {
		have := numbers.Of(field)
		switch least, takes := kind.Takes(kind.Of(g.Kind), field); {
		case takes && have < least:
			return badConfig(name+"."+field, have, fmt.Sprintf("a group of kind %v needs at least %d", g.Kind, least))
		case !takes && have != 0:
			return badConfig(name+"."+field, have, fmt.Sprintf("is for groups of kind %s; this one is of kind %v", kind.Taking(field).Name(), g.Kind))
		}
	}
	return nil
}

// mask is that of a layer of the group. A kind that gives tokens up says what its queries see: see checkSeen.
func (g *Group) mask(own Mask, layout Layout) Mask {
	if g.keeps() == kind.Last {
		m := kind.Of(g.Kind).Mask(g.numbers(), layout == Contiguous)
		own.Window, own.SinkTokens, own.Chunk = m.Window, m.Sinks, m.Chunk
	}
	return own
}

// within reports whether no query sees more than its last n tokens.
func (g *Group) within(n int) bool {
	m := kind.Of(g.Kind).Mask(g.numbers(), false)
	return m.Window > 0 && m.Window <= n && m.Sinks == 0
}

// content writes what a layer's group makes of the sequence, where its mask does not say it.
func (g *Group) content(t *keytext.Text) { kind.Of(g.Kind).Content(t, g.numbers()) }

// keepsAll reports whether the part's layers keep every token.
func (p *Part) keepsAll() bool { return kind.Of(p.Rule.Kind).Keeps == kind.All }

// checkPieces checks that a block has tokens of one piece alone.
func (p *Part) checkPieces() error {
	piece := kind.Of(p.Rule.Kind).Piece(kind.Numbers{Window: p.Rule.Window, Sinks: p.Rule.Sinks, Chunk: p.Rule.Chunk})
	if piece%p.BlockTokens() == 0 {
		return nil
	}
	return badConfig(fmt.Sprintf("Model.Groups[%d].Chunk", p.Of), piece, fmt.Sprintf("must be a multiple of the tokens of a block, %d", p.BlockTokens()))
}
