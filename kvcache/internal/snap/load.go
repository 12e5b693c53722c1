package snap

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// In is what sequences get from a stream: first all that its head says, then blocks, then their content.
type In[B backend.Buffer] struct {
	Head *snapshot.Head

	parts       *store.Parts[B]
	r           *snapshot.Reader
	strips      []*strip[B]
	homes       []home[B]
	planes      [][]pair // by strip of the stream: those of the pool that have something of it
	order       []int    // of sequences: see Order
	runs        [][]run  // by sequence and part
	targets     []*target
	needs       map[*residency.Blocks]int // blocks, of each allocator
	checkpoints map[*residency.Blocks]int // besides, for states before the last token
	roomy       bool                      // there is room for those, too
	keyed       int                       // see keys
	shared      sharing
	found       [][]src // see planner.find
	laid        int     // blocks that sequences have: see lays
	uses        [][]use // by chunk
	taken       bool
	stream      backend.Stream
	fills       []*fill[B]   // by strip of the pool: what is filled next
	full        []*fill[B]   // what waits: for more rows, or for blocks
	spare       [][]*fill[B] // by strip: what was unpacked
	slots       map[slotOf]*slot[B]
	rooms       []int // by strip: pieces of a fill
	sources     []int // by strip: how many of the stream's have something of it
	all         []backend.HostMemory
}

// home is a store of a part.
type home[B backend.Buffer] struct {
	of     *store.Store[B]
	strips []int // of the pool
	from   []int // of the stream
}

// pair is planes of a strip of the stream that go to one of the pool.
type pair struct {
	to     int
	planes []plane
	whole  bool // they are all that a piece has
}

// run is what a sequence gets in a part.
type run struct {
	len, gone   int
	segments    [store.MostStores]segment
	checkpoints []*target // states before the last token
}

// segment is blocks of a store, from one of the run on.
type segment struct {
	from    int
	targets []*target
}

// use is who gets tokens of a chunk.
type use struct {
	to *target
	src
}

// NewIn reads the head of a stream, and finds out what sequences of the pool would get. ErrMismatch where that cannot be; nothing
// of the pool has changed.
func NewIn[B backend.Buffer](parts *store.Parts[B], content string, r *snapshot.Reader) (_ *In[B], err error) {
	in := &In[B]{parts: parts, r: r}
	if in.Head, err = in.r.Head(); err != nil {
		return nil, err
	}
	if err := snapshot.Compare(in.Head.Content, content); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.Close())
		}
	}()
	if in.strips, err = strips(parts); err != nil {
		return nil, err
	}
	if err := in.match(); err != nil {
		return nil, err
	}
	in.sort()
	in.runs, in.shared = make([][]run, len(in.order)), newSharing()
	in.needs, in.checkpoints = map[*residency.Blocks]int{}, map[*residency.Blocks]int{}
	for _, i := range in.longest() {
		if err := in.plan(i); err != nil {
			return nil, err
		}
	}
	in.own()
	in.use()
	in.prepare()
	in.stream, err = parts.BE.NewStream()
	return in, err
}

// own gives targets their owners, which arrive before others that have them.
func (in *In[B]) own() {
	for _, i := range in.order {
		for p := range in.runs[i] {
			b := &in.runs[i][p]
			for _, list := range [...][]*target{b.segments[0].targets, b.segments[1].targets, b.checkpoints} {
				for _, t := range list {
					if t.owner == nobody {
						t.owner = i
					}
				}
			}
		}
	}
}

// use notes who gets what of each chunk.
func (in *In[B]) use() {
	for _, t := range in.targets {
		for _, list := range t.from {
			for _, s := range list {
				for len(in.uses) <= s.chunk {
					in.uses = append(in.uses, nil)
				}
				in.uses[s.chunk] = append(in.uses[s.chunk], use{t, s})
			}
		}
	}
}

// Fits reports whether nothing that can be found has to go for what the sequences need. States before their last tokens come only where
// there is plenty of room. The pool's lock is held.
func (in *In[B]) Fits() (bool, error) {
	in.roomy = true
	for of, n := range in.needs {
		if err := of.Reclaim(); err != nil {
			return false, err
		}
		st := of.Stats()
		if n > st.Free-st.Reserved {
			in.roomy = false
			return false, nil
		}
		in.roomy = in.roomy && in.checkpoints[of] <= (st.Free-st.Reserved-n)/spared
	}
	return true, nil
}

// wanted reports whether a target gets a block.
func (in *In[B]) wanted(t *target) bool { return t.checkpoint == 0 || in.roomy }

// Take takes the blocks for new sequences, which are as many as the head has: for all or, with block.ErrOutOfBlocks, for none. The
// pool's lock is held.
func (in *In[B]) Take(seqs []*store.Runs[B]) (err error) {
	for of, n := range in.needs {
		if in.roomy {
			n += in.checkpoints[of]
		}
		if _, err := of.Fits(func() (int, int, error) { return n, 0, nil }); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.forgo(seqs))
		}
	}()
	need := make([][]int, len(seqs))
	for i := range need {
		need[i] = make([]int, len(in.homes))
	}
	for _, t := range in.targets {
		if in.wanted(t) {
			need[t.owner][t.home]++
		}
	}
	got := make([][][]block.Block, len(seqs))
	for i, s := range seqs {
		got[i] = make([][]block.Block, len(in.homes))
		for h := range in.homes {
			if got[i][h], err = s.TakeArriving(in.homes[h].of, need[i][h]); err != nil {
				return err
			}
		}
	}
	for _, t := range in.targets {
		if in.wanted(t) {
			list := &got[t.owner][t.home]
			t.block, *list = (*list)[0], (*list)[1:]
		}
	}
	in.taken = true
	return nil
}

// forgo gives up what was taken. The pool's lock is held.
func (in *In[B]) forgo(seqs []*store.Runs[B]) (err error) {
	in.taken = false
	for _, s := range seqs {
		err = errors.Join(err, s.ForgoArriving())
	}
	return err
}

// Arrive gives the i-th sequence its blocks, whose content is there: those that were taken for it, and shares of those of sequences before it
// in Order, which have arrived and were published. The pool's lock is held.
func (in *In[B]) Arrive(i int, s *store.Runs[B]) error {
	filled := func(list []*target) (all []store.Filled) {
		for _, t := range list {
			all = append(all, store.Filled{Block: t.block, Shared: t.owner != i})
		}
		return all
	}
	places := make([]store.Arrived, len(in.runs[i]))
	for p := range in.runs[i] {
		b := &in.runs[i][p]
		places[p] = store.Arrived{Len: b.len, Gone: b.gone}
		for j, g := range b.segments {
			places[p].Segments[j] = store.ArrivedSegment{From: g.from, Blocks: filled(g.targets)}
		}
		for _, t := range b.checkpoints {
			if in.roomy && t.owner == i {
				places[p].Checkpoints = append(places[p].Checkpoints, t.block)
			}
		}
	}
	return s.Arrive(places)
}

// Published notes the blocks that the i-th sequence has in the place of its own: others had the same. States that others may go
// on from are with the prefix tree then; who took them owns them until ForgoArriving. The pool's lock is held.
func (in *In[B]) Published(i int, s *store.Runs[B]) {
	for p := range in.runs[i] {
		for _, t := range in.runs[i][p].checkpoints {
			if in.roomy {
				s.KeepCheckpoint(p, store.Checkpoint{Tokens: t.checkpoint, Block: t.block})
			}
		}
		for j, t := range in.runs[i][p].segments[0].targets {
			t.block = s.In[p].Kept.Blocks[j]
		}
	}
}

// Close lets go of everything. A nil one has nothing.
func (in *In[B]) Close() error {
	if in == nil {
		return nil
	}
	err := closeStrips(in.strips)
	for _, m := range in.all {
		err = errors.Join(err, m.Close())
	}
	if in.stream != nil {
		err = errors.Join(err, in.stream.Close())
	}
	in.strips, in.all, in.stream = nil, nil, nil
	return err
}
