package residency

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// blockTokens is small, so that paths have many blocks.
const blockTokens = 2

// path is a sequence as its pool keeps it, and the tokens that it has.
type path struct {
	tokens []uint32
	blocks []block.Block
	fence  *Fence
	past   Writers
	claim  block.Claim
	stored int // leading blocks that are in the tree
	silent bool
	failed bool
}

// model is a pool without memory. What each block holds is a list of tokens: all that lead to its
// end, so that equal ones mean equal keys and values.
type model struct {
	t      *rapid.T
	r      *Blocks
	fences *Fences
	lock   *guard
	ev     *events
	root   prefix.Root
	queues [2]*queue
	paths  []*path
	holds  map[block.Block][]uint32
	wrote  map[block.Block]writers
	leases []*prefix.Lease
	steps  []*work
	sound  int // of one more steps one fails
}

func newModel(t *rapid.T, blocks int) *model {
	m := &model{t: t, sound: 30, fences: &Fences{}, lock: &guard{}, ev: &events{limit: 1 << 30}, holds: map[block.Block][]uint32{}, wrote: map[block.Block]writers{}}
	m.queues = [2]*queue{{}, {}}
	m.fences.Guarded(m.lock)
	var err error
	m.r, err = New(m.fences, blocks, ofBlocks(prefix.Config{
		BlockSize: blockTokens, Now: func() time.Time { return time.Unix(0, 0) },
		MaxOffloaded: rapid.IntRange(0, 6).Draw(t, "offloaded"), Demote: m.demote,
	}), m.undefined)
	require.NoError(t, err)
	m.root = prefix.Fingerprint{}.Root(prefix.Scope{})
	return m
}

// undefined fails the paths that have a block which was not written.
func (m *model) undefined(b block.Block, err error) {
	require.Error(m.t, err)
	for _, p := range m.paths {
		p.failed = p.failed || slices.Contains(p.blocks, b)
	}
}

// demote says of some blocks that their content is elsewhere, so that their entry outlives them. It is
// asked where the content is there: written, and not being written.
func (m *model) demote(b block.Block, _ prefix.Key) bool {
	for _, steps := range m.wrote[b] {
		require.NotEmpty(m.t, steps)
		for _, w := range steps {
			require.True(m.t, w.done)
			require.NoError(m.t, w.err)
		}
	}
	require.Len(m.t, m.holds[b], len(m.holds[b])/blockTokens*blockTokens)
	return rapid.IntRange(0, 3).Draw(m.t, "demote") > 0
}

// busy are the numbers of the blocks that a step on the device may still use.
func (m *model) busy() map[uint32]bool {
	all := map[uint32]bool{}
	for _, w := range m.steps {
		if !w.done {
			for _, b := range w.uses {
				all[b.ID] = true
			}
		}
	}
	return all
}

// owned are the blocks that paths and leases own.
func (m *model) owned() map[block.Block]bool {
	all := map[block.Block]bool{}
	for _, p := range m.paths {
		for _, b := range p.blocks {
			all[b] = true
		}
	}
	m.r.Tree().Leased(func(b block.Block) { all[b] = true })
	return all
}

// promised is how many blocks are set aside.
func (m *model) promised() (n int) {
	for _, p := range m.paths {
		n += p.claim.Blocks()
	}
	return n
}

func (m *model) pick() *path {
	if len(m.paths) == 0 {
		m.t.Skip("no paths")
	}
	p := m.paths[rapid.IntRange(0, len(m.paths)-1).Draw(m.t, "path")]
	if p.failed {
		m.t.Skip("failed")
	}
	return p
}

func (m *model) tokens(name string, most int) []uint32 {
	return rapid.SliceOfN(rapid.Uint32Range(0, 1), 0, most).Draw(m.t, name)
}

// open begins a path with what is found of a prompt: blocks that hold just that.
func (m *model) open() {
	prompt := m.tokens("prompt", 12)
	require.NoError(m.t, m.reclaim())
	q := prefix.Query{Tokens: prompt}
	found := m.r.Tree().Match(m.root, q)
	p := &path{}
	blocks, match, err := m.r.Tree().Take(nil, m.root, q, prefix.RetentionHint{}, found)
	require.NoError(m.t, err)
	match.Tokens -= match.Tokens % blockTokens // a part of a block would be copied: not here
	if n := match.Tokens / blockTokens; n < len(blocks) {
		require.NoError(m.t, m.r.Retire(nil, blocks[n:]))
		blocks = blocks[:n]
	}
	for i, b := range blocks {
		require.Equal(m.t, prompt[:(i+1)*blockTokens], m.holds[b], "block %d of a match", i)
	}
	p.tokens, p.blocks, p.stored = slices.Clone(prompt[:match.Tokens]), blocks, len(blocks)
	if n := len(blocks); n > 0 {
		p.fence = m.r.Writer(blocks[n-1]).Hold()
	}
	m.paths = append(m.paths, p)
}

// reclaim is Reclaim, but for errors of the device, which are told.
func (m *model) reclaim() error {
	if err := m.r.Reclaim(); err != nil && !errors.Is(err, errFault) {
		return err
	}
	return nil
}

var errFault = errors.New("fault")

// patiently is Retry; what it waits for it waits for without the lock. What fails may give back what it took,
// when the device is further than it was.
func (m *model) patiently(do func() error) error {
	m.ev.waits = func() { require.False(m.t, m.lock.held) }
	defer func() { m.ev.waits = nil }()
	return m.r.Retry(func() error {
		err := do()
		if err != nil && rapid.Bool().Draw(m.t, "meanwhile") {
			for _, q := range m.queues {
				q.last().finish()
			}
			require.NoError(m.t, m.reclaim())
		}
		return err
	})
}

// guard is a lock that knows whether it is held.
type guard struct{ held bool }

func (g *guard) Lock()   { g.held = true }
func (g *guard) Unlock() { g.held = false }

// step adds tokens to a path: takes what it needs, writes, publishes.
func (m *model) step() { m.extend(m.pick()) }

func (m *model) extend(p *path) {
	q := rapid.SampledFrom(m.queues[:]).Draw(m.t, "queue")
	tokens := append(m.tokens("tokens", 5), 1)
	length := len(p.tokens) + len(tokens)
	need := (length+blockTokens-1)/blockTokens - len(p.blocks)
	tail, copies := block.Block{}, false
	if len(p.tokens)%blockTokens != 0 {
		tail = p.blocks[len(p.blocks)-1]
		alone, err := m.r.Writable(tail)
		require.NoError(m.t, err)
		if copies = !alone; copies {
			need++
		}
	}
	claimed := p.claim.Blocks()
	require.NoError(m.t, m.reclaim())
	var fresh []block.Block
	err := m.patiently(func() (err error) {
		fresh, err = m.r.Take(&p.claim, m.root, nil, need)
		return err
	})
	if err != nil {
		if errors.Is(err, errFault) {
			return
		}
		require.ErrorIs(m.t, err, block.ErrOutOfBlocks{})
		// Nothing that waits for the device is left, and what nobody owns does not suffice.
		require.Zero(m.t, m.r.retiredRefs())
		require.Less(m.t, m.r.Stats().Blocks-len(m.owned())-(m.promised()-claimed), need)
		require.Empty(m.t, fresh)
		return
	}
	if p.failed { // while it waited
		require.NoError(m.t, m.r.Retire(nil, fresh))
		return
	}
	busy, owned := m.busy(), m.owned()
	for _, b := range fresh {
		require.False(m.t, busy[b.ID], "a block is handed out while the device may use it")
		require.False(m.t, owned[b], "a block is handed out that somebody owns")
		require.False(m.t, m.r.Published(b))
		for old := range m.holds { // of the number, its earlier lives
			if old.ID == b.ID {
				delete(m.holds, old)
				delete(m.wrote, old)
			}
		}
	}
	require.NoError(m.t, p.fence.Order(q))
	blocks := slices.Clone(p.blocks)
	if copies {
		blocks[len(blocks)-1], fresh = fresh[0], fresh[1:]
	}
	blocks = append(blocks, fresh...)
	all := append(slices.Clone(p.tokens), tokens...)
	at := prefix.Path{Root: m.root}
	if p.stored > 0 {
		at.Parent = blocks[p.stored-1]
	}
	full := all[p.stored*blockTokens : length/blockTokens*blockTokens]
	if !p.silent && len(full) > 0 {
		require.NoError(m.t, m.r.OrderKnown(at, full, q))
	}
	w := q.enqueue(append(slices.Clone(blocks), p.blocks...), blocks[len(p.tokens)/blockTokens:])
	for _, other := range m.steps {
		if !other.done && slices.ContainsFunc(other.writes, func(b block.Block) bool { return slices.Contains(w.uses, b) }) {
			require.True(m.t, w.follows(other), "a block is read while it is written")
		}
	}
	m.steps = append(m.steps, w)
	if rapid.IntRange(0, m.sound).Draw(m.t, "fault") == 0 {
		w.err = errFault
	}
	f, err := m.r.Record(m.ev, q)
	require.NoError(m.t, err)
	f.Hold()
	defer m.r.Drop(f)
	if copies {
		require.NoError(m.t, m.reclaimed(m.r.Retire(f, []block.Block{tail})))
	}
	p.tokens, p.blocks = all, blocks
	for i := range blocks {
		if end := min((i+1)*blockTokens, length); end > length-len(tokens) {
			m.holds[blocks[i]] = all[:end]
			m.wrote[blocks[i]] = m.wrote[blocks[i]].with(w, max(length-len(tokens)-i*blockTokens, 0), end-i*blockTokens)
		}
	}
	if at := (length - len(tokens)) / blockTokens; copies {
		m.wrote[blocks[at]] = m.wrote[blocks[at]].copied(m.wrote[tail], w, (length-len(tokens))%blockTokens)
	}
	m.r.Replace(&p.fence, f)
	p.past.Add(m.fences, f, (length-len(tokens))/blockTokens*blockTokens)
	if p.silent || len(full) == 0 || m.r.Lost() != nil {
		return
	}
	offered := p.blocks[p.stored : length/blockTokens]
	n, err := publish(m.r, f, &p.past, at, full, offered)
	if errors.Is(err, prefix.ErrDetached) {
		p.silent = true
		return
	}
	require.NoError(m.t, m.reclaimed(err))
	for i, b := range offered[:n] {
		require.Equal(m.t, all[:(p.stored+i+1)*blockTokens], m.holds[b], "a block in place of an equal one")
	}
	p.stored += n
}

// reclaimed is nil for errors of the device.
func (m *model) reclaimed(err error) error {
	if errors.Is(err, errFault) {
		return nil
	}
	return err
}

// fork makes a path that shares all blocks.
func (m *model) fork() {
	p := m.pick()
	require.NoError(m.t, m.r.Share(p.blocks))
	child := &path{tokens: slices.Clone(p.tokens), blocks: slices.Clone(p.blocks), fence: p.fence.Hold(), stored: p.stored, silent: p.silent}
	p.past.CopyTo(&child.past)
	m.paths = append(m.paths, child)
}

// truncate gives up the end of a path.
func (m *model) truncate() {
	p := m.pick()
	n := rapid.IntRange(0, len(p.tokens)).Draw(m.t, "length")
	keep := (n + blockTokens - 1) / blockTokens
	gone := p.blocks[keep:]
	p.past.Cut(m.fences, n)
	if n%blockTokens != 0 {
		m.r.Inherit(&p.past, p.blocks[keep-1], (keep-1)*blockTokens)
	}
	p.blocks, p.tokens = p.blocks[:keep:keep], p.tokens[:n:n]
	p.stored = min(p.stored, n/blockTokens)
	require.NoError(m.t, m.reclaimed(m.r.Retire(p.fence, gone)))
	if n%blockTokens != 0 {
		m.r.Withdraw(p.blocks[keep-1])
	}
}

// release ends a path, also a failed one.
func (m *model) release() {
	if len(m.paths) == 0 {
		m.t.Skip("no paths")
	}
	m.drop(rapid.IntRange(0, len(m.paths)-1).Draw(m.t, "path"))
}

func (m *model) drop(i int) {
	p := m.paths[i]
	m.paths = slices.Delete(m.paths, i, i+1)
	require.NoError(m.t, m.reclaimed(m.r.Retire(p.fence, p.blocks)))
	m.r.Cancel(&p.claim)
	p.past.Cut(m.fences, 0)
	m.r.Drop(p.fence)
}

// reserve sets blocks aside.
func (m *model) reserve() {
	p, n := m.pick(), rapid.IntRange(0, 4).Draw(m.t, "blocks")
	before := p.claim.Blocks()
	err := m.patiently(func() error { return m.r.Reserve([]block.Reservation{{Claim: &p.claim, Blocks: n}}) })
	if err != nil && !errors.Is(err, errFault) {
		require.ErrorIs(m.t, err, block.ErrOutOfBlocks{})
	}
	if err != nil {
		require.Equal(m.t, before, p.claim.Blocks())
	} else {
		require.Equal(m.t, max(before, n), p.claim.Blocks(), "claims grow")
	}
}

// progress finishes some steps of a stream.
func (m *model) progress() {
	q := rapid.SampledFrom(m.queues[:]).Draw(m.t, "queue")
	if len(q.steps) > 0 {
		q.steps[rapid.IntRange(0, len(q.steps)-1).Draw(m.t, "step")].finish()
	}
}

// pin leases a prompt, or ends a lease.
func (m *model) pin() {
	if len(m.leases) > 1 {
		require.NoError(m.t, m.r.Tree().Unpin(m.leases[0]))
		m.leases = m.leases[1:]
		return
	}
	l, err := m.r.Tree().Pin(m.root, prefix.Query{Tokens: m.tokens("prompt", 8)}, time.Hour)
	if errors.Is(err, block.ErrOutOfBlocks{}) { // what is cached is promised
		require.NotZero(m.t, m.promised())
		return
	}
	if err != nil {
		require.ErrorIs(m.t, err, prefix.ErrPinned{})
		return
	}
	m.leases = append(m.leases, l)
}

// churn is requests that come and go: each leaves cached blocks behind, for which older ones are evicted.
func (m *model) churn() {
	for range rapid.IntRange(1, 6).Draw(m.t, "requests") {
		m.open()
		i := len(m.paths) - 1
		for range rapid.IntRange(1, 3).Draw(m.t, "steps") {
			if !m.paths[i].failed {
				m.extend(m.paths[i])
			}
		}
		m.drop(i)
		for _, q := range m.queues {
			if n := len(q.steps); n > 0 {
				q.steps[n-1].finish()
			}
		}
	}
}

// clear empties the tree under everybody, seldom.
func (m *model) clear() {
	if rapid.IntRange(0, 7).Draw(m.t, "seldom") > 0 {
		m.t.Skip("another time")
	}
	require.NoError(m.t, m.reclaim())
	require.NoError(m.t, m.r.Tree().Clear(true))
	m.leases = nil
	for _, p := range m.paths {
		p.silent, p.stored = true, 0
	}
}

func (m *model) check() {
	books := Books{}
	for _, p := range m.paths {
		books.Own(p.blocks)
		books.Hold(p.fence)
		p.past.Hold(&books)
	}
	require.NoError(m.t, m.r.Check(&books))
	require.NoError(m.t, m.r.Fences.Check(books.Holders))
	s := m.r.Stats()
	require.Equal(m.t, s.Blocks, s.Free+s.Cached+s.Held)
	for _, p := range m.paths {
		if p.failed {
			continue
		}
		for i, b := range p.blocks { // nobody wrote what a path owns
			end := min((i+1)*blockTokens, len(p.tokens))
			require.GreaterOrEqual(m.t, len(m.holds[b]), end, fmt.Sprint(p.tokens))
			require.Equal(m.t, p.tokens[:end], m.holds[b][:end])
		}
	}
}

// end lets the device finish. What it failed to write is not found, and whoever shares it knows.
func (m *model) end() {
	for _, q := range m.queues {
		require.NoError(m.t, q.Sync())
	}
	require.NoError(m.t, m.reclaim())
	for b, wrote := range m.wrote {
		if !wrote.failed() {
			continue
		}
		require.False(m.t, m.r.Published(b), "what was not written")
		for _, p := range m.paths {
			if at := slices.Index(p.blocks, b); at >= 0 && at < p.stored {
				require.True(m.t, p.failed)
			}
		}
	}
	m.check()
}

// close releases all paths, and leaves nothing.
func (m *model) close() {
	for len(m.paths) > 0 {
		m.release()
	}
	require.NoError(m.t, m.reclaim())
	require.Zero(m.t, m.r.retiredRefs())
	m.r.Close()
	if err := m.r.Fences.Close(); err != nil {
		require.ErrorIs(m.t, err, errFault)
	}
}

// Random histories of sequences, steps that end late or fail, pins and claims: what is found is
// what was stored, nothing is handed out that somebody or the device still uses, and blocks
// lack only where there are none. Entries of the tree outlive some blocks.
func TestBlocksAgainstModel(t *testing.T) {
	evicted, outlived := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, rapid.IntRange(1, 12).Draw(t, "blocks"))
		t.Repeat(map[string]func(*rapid.T){
			"open": func(*rapid.T) { m.open() }, "step": func(*rapid.T) { m.step() }, "step again": func(*rapid.T) { m.step() },
			"fork": func(*rapid.T) { m.fork() }, "truncate": func(*rapid.T) { m.truncate() }, "release": func(*rapid.T) { m.release() },
			"reserve": func(*rapid.T) { m.reserve() }, "progress": func(*rapid.T) { m.progress() }, "pin": func(*rapid.T) { m.pin() },
			"churn": func(*rapid.T) { m.churn() }, "churn again": func(*rapid.T) { m.churn() }, "clear": func(*rapid.T) { m.clear() }, "": func(*rapid.T) { m.check() },
		})
		m.end()
		s := m.r.Tree().Stats()
		evicted, outlived = evicted+s.Evicted, outlived+s.Demoted
		m.close()
	})
	if !testing.Short() { // 20 histories may lack it
		require.NotZero(t, outlived, "an entry that outlives its block")
		require.Greater(t, evicted, outlived, "one that does not")
	}
}

// A lost device takes the tree with it.
func TestLostDevice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, 8)
		m.open()
		require.NoError(t, m.r.Observe(nil))
		require.NoError(t, m.r.Lost())
		lost := fmt.Errorf("gone: %w", backend.ErrLost)
		require.Equal(t, lost, m.r.Observe(lost))
		require.ErrorIs(t, m.r.Lost(), backend.ErrLost)
		require.Zero(t, m.r.Tree().Stats().Blocks)
		m.check()
	})
}
