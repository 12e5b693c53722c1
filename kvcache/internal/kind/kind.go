// Package kind is what differs between kinds of layers: what a query sees of its sequence, and so what a sequence keeps. A kind is a
// type in a file of its own and a row of Table; everything else follows from what these say, and asks them.
package kind

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/keytext"
)

// Kind is a kind of layers. Methods take the numbers that its layers were given; those from Sees on are for kinds that keep rows.
type Kind interface {
	Name() string
	// Fields are the numbers that it takes of config.Group.
	Fields() []Field
	// Content writes what layers of the kind depend on besides their mask. Keys of blocks have it: no byte of it changes.
	Content(t *keytext.Text, n Numbers)

	// Sees is what the query at a position sees up to itself: the first sinks tokens, and those from first on. first does not fall as
	// positions rise. A query may see less, as its mask says.
	Sees(n Numbers, position int) (sinks, first int)
	// Most is how many tokens before its own a query sees at most, sinks aside, where not all are kept.
	Most(n Numbers) int
	// Piece is the tokens that a step lays out as a sequence of their own, so that the device needs no mask for them: a whole
	// number of blocks. 0: a sequence is laid out in one, with a gap for what it gave up.
	Piece(n Numbers) int
	// Mask is what the device hides: in the contiguous layout, which keeps everything, or of what was laid out.
	Mask(n Numbers, contiguous bool) Mask
}

// Keeps is what a sequence keeps in layers of a kind.
type Keeps uint8

const (
	All   Keeps = iota // the rows of all tokens
	Last               // the rows of the last ones that a query sees, and of sinks
	State              // a state, which a step replaces
	Nothing
)

// Rows reports whether layers have keys and values.
func (k Keeps) Rows() bool { return k <= Last }

// Numbers are what layers of a kind are given. What a kind does not take is 0.
type Numbers struct{ Window, Sinks, Chunk, StateBytes int }

// Of is one of them by its name.
func (n Numbers) Of(field string) int {
	switch field {
	case "Window":
		return n.Window
	case "Sinks":
		return n.Sinks
	case "Chunk":
		return n.Chunk
	default:
		return n.StateBytes
	}
}

// Field is a number that a kind takes, and the least that it may be.
type Field struct {
	Name  string // in Numbers and config.Group
	Least int
}

// Mask is what a device knows of what queries see: see backend.Mask. The zero Mask is causal.
type Mask struct{ Window, Sinks, Chunk int }

// Row is a kind, and what its layers keep.
type Row struct {
	Keeps Keeps
	Kind
}

// Table has the kinds by the numbers that package group gives them.
var Table = []Row{
	{All, full{}},
	{Last, window{}},
	{Last, chunked{}},
	{State, state{}},
	{Nothing, none{}},
}

// Of is a kind by its number. One that is not in the table keeps nothing and takes nothing.
func Of[K ~uint8](k K) *Row {
	if int(k) < len(Table) {
		return &Table[k]
	}
	return &other
}

var other = Row{Nothing, unknown{}}

// Takes reports whether a kind takes a number, and the least that it may be.
func Takes(k Kind, field string) (least int, takes bool) {
	fields := k.Fields()
	if i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == field }); i >= 0 {
		return fields[i].Least, true
	}
	return 0, false
}

// Taking is the first kind that takes a number.
func Taking(field string) Kind {
	for _, k := range Table {
		if _, takes := Takes(k, field); takes {
			return k.Kind
		}
	}
	return unknown{}
}

// Base is a kind that has nothing to say besides its name: embedded in others, they say the rest.
type Base struct{}

func (Base) Fields() []Field                      { return nil }
func (Base) Content(*keytext.Text, Numbers)       {}
func (Base) Sees(Numbers, int) (sinks, first int) { return 0, 0 }
func (Base) Most(Numbers) int                     { return 0 }
func (Base) Piece(Numbers) int                    { return 0 }
func (Base) Mask(Numbers, bool) Mask              { return Mask{} }

type unknown struct{ Base }

func (unknown) Name() string { return "unknown" }
