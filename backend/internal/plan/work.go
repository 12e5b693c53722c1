package plan

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// magic begins the work of a plan.
const magic = 0x666b7604

// The words of the header, which lets a call recognise work that was made for
// another shape or a narrower mask and would leave rows or keys out.
const (
	wordMagic = iota
	wordSum   // fingerprint, two words
	wordSumHigh
	wordVisible // the mask, see Visibility.Words
	wordSeqs    = wordVisible + VisibleWords
	wordTokens  = wordSeqs + 1
	wordParts   = wordTokens + 1 // partial rows of one KV head
	wordShared  = wordParts + 1  // shared rows
	wordLists   = wordShared + 1 // items of each kind, and merges
	headerEnd   = wordLists + int(Kinds) + 1
)

var _ [abi.WorkHeader - headerEnd]struct{} // the header has room for all words

// Call is what a plan and the calls that use it agree on.
type Call struct {
	Op                          string // that asks, in errors
	QHeads, KVHeads, KDim, VDim int
	Cache
	Seqs, Tokens int
	See          Visibility // of a call: the same as planned, or narrower
	Views        bool       // there are any
	TreeWords    int
	Mass         bool // of the plan
}

func (c *Call) fingerprint() Fingerprint {
	flags := 0
	if c.See.NonCausal {
		flags |= 1
	}
	if c.Mass {
		flags |= 2
	}
	if c.Views {
		flags |= 4
	}
	if c.Latent {
		flags |= 8
	}
	return NewFingerprint(c.QHeads, c.KVHeads, c.KDim, c.VDim, int(c.Format.Act), int(c.Format.K), int(c.Format.V), flags, c.TreeWords)
}

// List is a run of items: Count of them from item First on.
type List struct{ First, Count uint32 }

// Work is what the head of a plan's work says.
type Work struct {
	Kinds       [Kinds]List
	All         List // the items of all kinds
	Merges      List // an item for each tile of several parts
	Shared      List // rows of items of several sequences, from word First on
	PartialRows int  // over all KV heads
	Space       Space
}

// header is the first words of a plan's work; lists and partial rows are set when
// they are known.
func (c *Call) header(work []uint32) []uint32 {
	sum := c.fingerprint()
	var words [abi.WorkHeader]uint32
	words[wordMagic], words[wordSum], words[wordSumHigh] = magic, uint32(sum), uint32(sum>>32)
	see := c.See.Words()
	copy(words[wordVisible:], see[:])
	words[wordSeqs], words[wordTokens] = uint32(c.Seqs), uint32(c.Tokens)
	return append(work, words[:]...)
}

// Read sets w, which is zero, to the lists of a plan's work, as the host has it. It is
// ErrArgument, and w unspecified, where the work was not made for c. The items are not looked
// at: they are read from device memory, and kernels trust none of their fields.
func (w *Work) Read(work []uint32, c *Call) error {
	bad := func(format string, args ...any) error {
		return backend.ErrArgument{Op: c.Op, What: fmt.Sprintf(format, args...)}
	}
	sum := c.fingerprint()
	if len(work) < abi.WorkHeader || work[wordMagic] != magic || work[wordSum] != uint32(sum) || work[wordSumHigh] != uint32(sum>>32) {
		return bad("plan: was not made for these heads and types; call PlanAttend for this step and upload its work")
	}
	if seqs, tokens := work[wordSeqs], work[wordTokens]; uint64(seqs) != uint64(c.Seqs) || uint64(tokens) != uint64(c.Tokens) {
		return bad("plan: was made for %d sequences of %d tokens, not for %d of %d", seqs, tokens, c.Seqs, c.Tokens)
	}
	if err := c.See.Within(work[wordVisible:wordSeqs]); err != nil {
		return bad("%v", err)
	}
	items := uint64(0)
	for k := range w.Kinds {
		w.Kinds[k] = List{uint32(items), work[wordLists+k]}
		items += uint64(work[wordLists+k])
	}
	merges, shared := uint64(work[wordLists+int(Kinds)]), uint64(work[wordShared])
	rowsAt := abi.WorkHeader + abi.ItemWords*(items+merges)
	if need := rowsAt + abi.RowWords*shared; uint64(len(work)) != need {
		return bad("plan: its work has %d words, need %d for %d items, %d merges and %d shared rows", len(work), need, items, merges, shared)
	}
	w.All, w.Merges, w.Shared = List{0, uint32(items)}, List{uint32(items), uint32(merges)}, List{uint32(rowsAt), uint32(shared)}
	partial, fits := backend.Mul(int(work[wordParts]), c.KVHeads)
	if fits {
		w.PartialRows = partial
		w.Space, fits = spaceOf(c.Tokens, c.QHeads, partial, c.VDim, c.Mass)
	}
	if !fits {
		return bad("plan: %d partial rows of %d KV heads overflow", work[wordParts], c.KVHeads)
	}
	return nil
}
