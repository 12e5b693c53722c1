package store

import (
	"cmp"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Parts are those of a pool, as config.Config.Parts lists them: one of all layers, unless Model.Groups says more.
type Parts[B backend.Buffer] struct {
	BE         backend.Backend[B]
	Config     config.Config
	Fences     residency.Fences
	All        []*Part[B]
	Blocks     *residency.Blocks // of all parts; in the contiguous layout of the first
	Layers     []Place           // of the model
	BlockBytes int64             // of a block in all lanes

	states  []int                          // the parts whose layers have states
	rows    []int                          // those with keys and values
	sliding []int                          // those that give up blocks in front as a sequence grows
	partly  bool                           // some part does not keep everything
	seals   bool                           // some part has several stores
	appends bool                           // blocks that are full stay as they are: there is one part of one store, which keeps everything
	carrier *carrier[B]                    // nil: no sequence was suspended
	owned   []B                            // what parts have in common
	offered offer[B]                       // what is published
	held    func(part, i int) *block.Block // of it
}

// Place is where a layer is: in which part, and which of its layers it is. Part −1: it keeps nothing.
type Place struct{ Part, Layer int }

// New allocates the parts of a configuration that is filled in. undefined is called with entries of the prefix tree
// whose content a device failed to write. With an error nothing is left allocated.
func New[B backend.Buffer](be backend.Backend[B], cfg config.Config, undefined func(block.Block, error)) (*Parts[B], error) {
	p := &Parts[B]{BE: be, Config: cfg, Layers: make([]Place, cfg.Model.Layers)}
	p.held = p.offered.block // made once: to publish allocates nothing
	err := p.allocate()
	if err == nil { // not before: the device says whether that number of blocks is reasonable
		err = p.settleIn(undefined)
	}
	if err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

func (p *Parts[B]) allocate() error {
	parts := p.Config.Parts()
	var err error
	if p.BlockBytes, err = p.Config.BytesPerBlock(); err != nil {
		return err
	}
	stream, err := p.BE.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	in, err := p.lanes(stream)
	if err != nil {
		return err
	}
	for l := range p.Layers {
		p.Layers[l].Part = -1
	}
	for i := range parts {
		var st *Part[B]
		if parts[i].State > 0 {
			p.states = append(p.states, i)
			st = newStates(p.BE, &parts[i], &p.Fences, in)
		} else {
			p.rows = append(p.rows, i)
			if st, err = newStores(p.BE, stream, &parts[i], &p.Fences, in); err != nil {
				return err
			}
		}
		st.number, st.Model = i, parts[i].Layers
		p.All = append(p.All, st)
		if st.Slides() {
			p.sliding = append(p.sliding, i)
		}
		for j, l := range parts[i].Layers {
			p.Layers[l] = Place{i, j}
		}
	}
	return stream.Sync()
}

// lanes is what parts have in common, filled on a stream; nil: they have nothing.
func (p *Parts[B]) lanes(stream backend.Stream) (*lanes[B], error) {
	if n, _, _, _ := p.Config.Lanes(); n == 0 {
		return nil, nil
	}
	return newLanes(memory[B]{p.BE, stream, &p.owned}, &p.Config)
}

// settleIn makes the residency of the blocks.
func (p *Parts[B]) settleIn(undefined func(block.Block, error)) (err error) {
	var cfg *group.Config
	if p.Config.Memory.Prefix != prefix.Off {
		cfg = p.groups()
	}
	p.partly = slices.ContainsFunc(p.All, func(st *Part[B]) bool { return st.keeps() != kind.All })
	p.seals = slices.ContainsFunc(p.All, (*Part[B]).Residual)
	lanes, _, _, _ := p.Config.Lanes()
	for i, st := range p.All {
		if st.Kept.Blocks = p.Blocks; i == 0 || lanes == 0 { // what has memory of its own has blocks of its own
			if st.Kept.Blocks, err = residency.New(&p.Fences, p.Config.Memory.Blocks, cfg, undefined); err != nil {
				return err
			}
			p.Blocks = p.All[0].Kept.Blocks
		}
		if err = st.settleLast(); err != nil {
			return err
		}
	}
	p.appends = p.Plain() && !p.seals
	return nil
}

// groups is what a cache has of the parts.
func (p *Parts[B]) groups() *group.Config {
	c := &p.Config
	g := &group.Config{Tree: prefix.Config{BlockSize: c.EntryTokens(), Policy: c.Memory.Prefix}}
	g.Every, g.Share = c.Memory.Retention()
	full := 0
	for _, st := range p.All {
		each, told := g.Tree.BlockSize/st.Rule.Block, 0
		if st.keeps() == kind.All {
			full += each
		} else {
			told = c.Parts()[st.number].Of + 1
		}
		g.Parts = append(g.Parts, group.Part{Rule: st.Rule, Each: each, Group: told})
	}
	// Without layers that keep everything most entries of a long path have no blocks.
	g.Entries = c.Memory.Blocks
	if full == 0 {
		g.Entries += 2 * c.Memory.MaxSeqs * c.MostEntries()
	}
	return g
}

// Buffers is how many buffers the pool owns.
func (p *Parts[B]) Buffers() int {
	n := len(p.owned)
	for _, st := range p.All {
		n += len(st.owned)
	}
	return n
}

// Reclaim gives up what the device has finished with.
func (p *Parts[B]) Reclaim() (err error) {
	p.residencies(func(_, _ int, st *Store[B]) { err = cmp.Or(err, st.Reclaim()) })
	return err
}

// residencies calls do with a store of each allocator of blocks: that which parts have in common, or each part's own, and those of the stores
// that come after a part's first.
func (p *Parts[B]) residencies(do func(part, i int, st *Store[B])) {
	for part, all := range p.All {
		for i, st := range all.Stores {
			if part == 0 || st.Blocks != p.Blocks {
				do(part, i, st)
			}
		}
	}
}

// Close waits for the device and frees everything.
func (p *Parts[B]) Close() error {
	err := p.Fences.Close()
	if p.carrier != nil {
		err = cmp.Or(err, p.carrier.close())
	}
	for _, st := range p.All {
		st.closeBlocks()
	}
	p.free()
	return err
}

func (p *Parts[B]) free() {
	for _, st := range p.All {
		st.free()
	}
	for i := len(p.owned) - 1; i >= 0; i-- { // views before what they are views of
		_ = p.BE.Free(p.owned[i]) // the buffer is ours and live: a failure means the device is gone
	}
	p.owned = nil // the parts stay: a caller that received ErrClosed may still look at them
}

// Plain reports whether a block is of one path at a time: an entry of the prefix tree is one, or would be, if there was one.
func (p *Parts[B]) Plain() bool { return len(p.All) == 1 && !p.partly }

// Appends reports whether blocks that were loaded can be appended to what their sequence has computed: they are entries of the
// prefix tree, and of one store.
func (p *Parts[B]) Appends() bool { return p.Blocks.Groups().Plain() && p.Config.Storage.Residual == 0 }

// Common reports whether parts have their blocks in common.
func (p *Parts[B]) Common() bool { return p.All[len(p.All)-1].Kept.Blocks == p.Blocks }

// Stats are the numbers of the blocks. Where each part has its own, a sequence has one of each, which count as one.
func (p *Parts[B]) Stats() residency.Stats {
	all := p.Blocks.Stats()
	for _, st := range p.All[1:] {
		all.Retired = max(all.Retired, st.Kept.Stats().Retired)
	}
	return all
}

// Logical is the blocks of all sequences, shared ones counted for each owner.
func (p *Parts[B]) Logical() (n int) {
	for _, st := range p.All {
		if st.Kept.Blocks == p.Blocks {
			n += st.Kept.Logical
		}
	}
	return n
}
