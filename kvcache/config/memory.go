package config

import (
	"cmp"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Layout is how a sequence's tokens lie in memory.
type Layout uint8

const (
	// LayoutUnset leaves the choice to FERRUM_METAL_PAGED_KV.
	LayoutUnset Layout = iota
	// Contiguous gives each sequence one array [heads, capacity, dim].
	Contiguous
	// Paged gives each sequence blocks [heads, block size, dim] as it grows.
	Paged
)

func (l Layout) String() string { return [...]string{"unset", "contiguous", "paged"}[min(l, Paged)] }

// MarshalText returns "contiguous" or "paged".
func (l Layout) MarshalText() ([]byte, error) {
	if l != Contiguous && l != Paged {
		return nil, badConfig("Memory.Layout", int(l), "accepts Contiguous and Paged")
	}
	return []byte(l.String()), nil
}

// UnmarshalText is the inverse of MarshalText.
func (l *Layout) UnmarshalText(text []byte) error {
	for _, known := range [...]Layout{Contiguous, Paged} {
		if known.String() == string(text) {
			*l = known
			return nil
		}
	}
	return backend.ErrConfig{Name: "layout", Value: string(text), Why: "accepts contiguous and paged"}
}

// Defaults of a Config.
const (
	DefaultBlockSize = 16
	DefaultCapacity  = 4096
	DefaultMaxSeqs   = 8
	DefaultDType     = backend.F16
	// Of pools with groups.
	DefaultRollback    = 16
	DefaultRetainShare = 75
)

// Memory is how much device memory the cache takes, how it is divided, and what is kept in it.
// Keys and values do not depend on it.
type Memory struct {
	Layout Layout `json:"layout,omitzero"` // prefixes are reused in the paged layout only
	// BlockSize is the tokens of a block: a power of two, or on the CPU any number (backend.Caps.SupportsBlockSize). Paged only.
	BlockSize int `json:"block_size,omitzero"`
	// Capacity is the most tokens a sequence may have. A paged sequence takes memory only for the
	// tokens that it has, on the device and on the host.
	Capacity int `json:"capacity,omitzero"`
	// MaxSeqs is the number of sequences of full capacity to make room for.
	MaxSeqs int `json:"max_seqs,omitzero"`
	// Blocks is the number of blocks; 0: MaxSeqs times the blocks of Capacity, or as
	// many as the device has room for (see Config.Within). Paged only.
	Blocks int `json:"blocks,omitzero"`
	// StepTokens is for Storage.Residual: unquantized blocks are allocated for that many new tokens of each of
	// two steps at once, besides those of the windows; 0: DefaultStepTokens. In a step with more new tokens of a
	// sequence all layers use one cache, one after another: call Attend for each layer before Append for the next.
	StepTokens int `json:"step_tokens,omitzero"`
	// Rollback is, with Model.Groups, by how many tokens a sequence can always be truncated without computing some
	// again: those of a draft that may be rejected. Windows and chunks keep as many more; how far a sequence can go back
	// beyond that it is told (Sequence.Resumable). 0: DefaultRollback, −1: none. A state cannot go back: Fork the sequence
	// before a draft.
	Rollback int `json:"rollback,omitzero"`
	// RetainEvery says, with Model.Groups, which blocks of windows and chunks, and which states, stay findable when their
	// sequence goes on, besides those that are read where others are likely to go on (group.RestorePoints): those that are read at
	// every so many-th entry of the prefix tree. 1: all, 0: no others.
	RetainEvery int `json:"retain_every,omitzero"`
	// RetainShare is how much of the memory, in percent, cached blocks of windows, chunks and states may take before they
	// are evicted first; below that entries of the tree are, with all that is with them. 0: DefaultRetainShare.
	RetainShare int `json:"retain_share,omitzero"`
	// Prefix is the policy by which blocks of earlier sequences are kept for later ones;
	// prefix.Off keeps nothing. It needs the paged layout, where unset is
	// prefix.Adaptive. A runner whose keys and values do not depend on tokens alone
	// turns it off, or opens its sequences with NoPublish.
	Prefix prefix.Policy `json:"prefix,omitzero"`
}

// rollback is Rollback with its default.
func (m *Memory) rollback() int { return max(cmp.Or(m.Rollback, DefaultRollback), 0) }

// Retention is RetainEvery and RetainShare, with their defaults.
func (m *Memory) Retention() (every, share int) {
	return m.RetainEvery, cmp.Or(m.RetainShare, DefaultRetainShare)
}

// check checks what no default repairs.
func (m *Memory) check() error {
	if m.Layout > Paged {
		return badConfig("Memory.Layout", int(m.Layout), "accepts Contiguous and Paged")
	}
	if m.RetainShare > 100 {
		return badConfig("Memory.RetainShare", m.RetainShare, "is a percentage: accepts 0 to 100")
	}
	return checkRanges("Memory", []bounded{
		{"BlockSize", m.BlockSize, 0}, {"Capacity", m.Capacity, 0}, {"MaxSeqs", m.MaxSeqs, 0},
		{"Blocks", m.Blocks, 0}, {"StepTokens", m.StepTokens, 0}, {"Rollback", m.Rollback, -1}, {"RetainEvery", m.RetainEvery, 0}, {"RetainShare", m.RetainShare, 0},
	})
}

// checkFilled checks the part once its fields are filled in.
func (m *Memory) checkFilled(s *Storage) error {
	switch {
	case m.Layout == Contiguous && m.BlockSize != 0:
		return badConfig("Memory.BlockSize", m.BlockSize, "applies to the paged layout only")
	case m.Layout == Contiguous && m.Blocks != 0 && m.Blocks != m.MaxSeqs: // as Resolve fills it in
		return badConfig("Memory.Blocks", m.Blocks, "applies to the paged layout only; MaxSeqs sizes a contiguous pool")
	case m.Layout == Contiguous && m.Prefix != prefix.Off:
		return backend.ErrConfig{Name: "Memory.Prefix", Value: m.Prefix.String(), Why: "applies to the paged layout only"}
	case m.Prefix > prefix.Off:
		return badConfig("Memory.Prefix", int(m.Prefix), "accepts the policies of package prefix")
	case s.Residual == 0 && m.StepTokens != 0:
		return badConfig("Memory.StepTokens", m.StepTokens, "applies with Storage.Residual only")
	case s.Residual > 0 && m.Layout != Paged:
		return badConfig("Storage.Residual", s.Residual, "needs the paged layout: tokens are quantized in whole blocks, and a contiguous sequence is one block")
	}
	return nil
}

// bounded is a number and the least that it may be.
type bounded struct {
	name     string
	v, least int
}

// checkRanges checks the numbers of a part.
func checkRanges(part string, fields []bounded) error {
	for _, f := range fields {
		if f.v < f.least || f.v > maxSetting {
			return badConfig(part+"."+f.name, f.v, fmt.Sprintf("accepts %d to %d", f.least, maxSetting))
		}
	}
	return nil
}
