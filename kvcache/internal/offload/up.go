package offload

import (
	"context"
	"errors"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
)

// Want is the beginning of a prompt that the device and tiers have together.
type Want struct {
	Path   prefix.Path   // where it begins: Extra is that of its entries
	Tokens []uint32      // of its entries, full ones
	Have   []block.Block // without groups: the first of them that are the asker's
	Both   bool          // without groups: the sequence computes meanwhile, if that is best

	keys  []tier.Key  // of the entries
	gain  int         // tokens that the device does not have, or cannot go on behind
	units []unit      // what tiers have of it
	bytes int64       // of those
	from  map[int]int // with groups: by entry and place, the tier
}

// unit is a payload to load: of an entry what is at a place, from a tier.
type unit struct{ entry, at, tier int }

// Find asks tiers for what of a query they have beyond what was found on the device, and returns that and how many tokens it is. The
// guard is not held.
func (o *Offload[B]) Find(ctx context.Context, root prefix.Root, q prefix.Query, found prefix.Match) (w Want, tokens int) {
	n := len(q.Tokens) / o.shape.tokens
	if n <= found.Blocks || found.Fidelity != prefix.Exact { // behind what is not exact comes nothing that is
		return w, 0
	}
	q.Tokens, q.Extra = q.Tokens[:n*o.shape.tokens], q.Extra[:min(n, len(q.Extra))]
	w = Want{Path: prefix.Path{Root: root, Extra: q.Extra}, Tokens: q.Tokens, keys: root.Keys(nil, o.shape.tokens, q)}
	if o.groups != nil {
		o.findParts(ctx, &w, q)
		return w, w.gain
	}
	places, n := o.ask(ctx, w.keys[found.Blocks:])
	at := found.Blocks
	for _, p := range places {
		for range p.Blocks {
			w.units = append(w.units, unit{at, 0, p.Tier})
			at++
		}
	}
	w.cut(at, n*o.shape.tokens, o.shape.tokens)
	return w, w.gain
}

// cut shortens what is wanted to some entries.
func (w *Want) cut(entries, gain, size int) {
	w.keys, w.Tokens, w.Path.Extra = w.keys[:entries], w.Tokens[:entries*size], w.Path.Extra[:min(entries, len(w.Path.Extra))]
	w.gain = gain
}

// ask says where the first of some keys are, and how many that is.
func (o *Offload[B]) ask(ctx context.Context, keys []tier.Key) (places []tier.Place, n int) {
	if len(keys) == 0 {
		return nil, 0
	}
	places, _ = o.mover.Has(ctx, keys) // a tier that fails has nothing, and counts that
	for _, p := range places {
		n += p.Blocks
	}
	return places, n
}

// Load is blocks on their way up. It owns those that are there, and those before them, until they are taken over or dropped.
type Load struct {
	Done chan struct{} // closed when no more will come

	cancel  context.CancelFunc
	held    *hold // what was there before the load, and what came; guarded
	base    int   // entries that the asker has
	next    int   // the entry that is put into the tree next
	known   int   // entries of which the tree had something
	by      []int // of each entry the tier that its last payload came from; −1: none did
	epoch   int
	dropped bool

	// Of a load that meets: see meet.go.
	meets         bool
	wanted, front int   // blocks, and those that the sequence has computed
	back          *hold // the last ones
	begun         time.Time
	computing     time.Duration // what computing all of them was expected to take
}

// Gained is how many entries the load has put behind those that the asker has. The guard is held.
func (l *Load) Gained() int { return l.next - l.base }

// Cancel has no more blocks come.
func (l *Load) Cancel() { l.cancel() }

// Begin loads what of a prompt is worth it; nil: nothing is. The guard is held.
func (o *Offload[B]) Begin(w Want) *Load {
	if o.closed || len(w.keys) == 0 {
		return nil
	}
	h, next := &hold{blocks: append([]block.Block(nil), w.Have...)}, len(w.Have)
	if o.groups != nil {
		if h, next = o.holdParts(&w); h == nil {
			return nil
		}
	} else if err := o.blocks.Share(w.Have); err != nil {
		return nil
	}
	for _, u := range w.units {
		w.bytes += o.bytesOf(u)
	}
	d := o.decide(&w, 0, 0)
	if d.Blocks == 0 && d.Probe == 0 {
		o.give(h)
		return nil
	}
	l := &Load{Done: make(chan struct{}), held: h, base: len(w.Have), next: next, known: max(len(h.path), len(w.Have)), by: make([]int, len(w.keys)), epoch: o.epoch}
	if o.shape.full == 0 {
		l.known = 0
	}
	for i := range l.by {
		l.by[i] = -1
	}
	l.meets, l.wanted, l.back, l.begun, l.computing = d.Choice == planner.Meet, len(w.units), &hold{}, time.Now(), d.Computing
	o.owned[l.held], o.owned[l.back] = struct{}{}, struct{}{}
	if l.meets {
		o.meeting[l] = struct{}{}
	}
	o.stats.Loading++
	ctx, cancel := context.WithCancel(o.end)
	l.cancel = cancel
	o.going.Add(1)
	go o.load(ctx, l, w, d)
	return l
}

func (o *Offload[B]) bytesOf(u unit) int64 { return o.shape.parts[o.shape.places[u.at].part].Bytes }

// decide says what to do next of a load that has brought some of its units, the first ones, and taken a while. The blocks of which it
// speaks are units. The planner is asked about as many entries as would have to be computed.
func (o *Offload[B]) decide(w *Want, loaded int, waited time.Duration) planner.Decision {
	size, units := o.shape.tokens, len(w.units)
	entries := max((w.gain+size-1)/size, 1)
	q := planner.Prompt{BlockTokens: size, BlockBytes: max(w.bytes/int64(entries), 1), Context: len(w.Tokens) - w.gain,
		Loaded: loaded * entries / max(units, 1), Waited: waited, Both: w.Both && loaded == 0, Now: time.Now(), Pieces: w.pieces(entries)}
	d := o.planner.Decide(q)
	if d.Computing == 0 { // nobody told how long that takes: who has tiers wants them used
		d.Choice, d.Blocks, d.Probe = planner.Load, units-loaded, 0
		d.Why = "how fast the runner computes is not known, so all is loaded"
		return d
	}
	if o.groups != nil && d.Choice == planner.Prefix && loaded == 0 && d.Loading >= d.Computing { // a part of it is of no use
		d.Choice, d.Blocks = planner.Compute, 0
		d.Why = "loading all takes longer than computing, and layers that see a part need the end of it"
	}
	d.Blocks, d.Probe = (d.Blocks*units+entries-1)/entries, (d.Probe*units+entries-1)/entries
	d.Blocks, d.Probe = min(d.Blocks, units-loaded), min(d.Probe, units-loaded)
	return d
}

// pieces is the entries that are wanted, by the tiers that their payloads come from.
func (w *Want) pieces(entries int) (out []planner.Piece) {
	done := 0
	for i, u := range w.units {
		if n := (i + 1) * entries / len(w.units); len(out) == 0 || out[len(out)-1].Tier != u.tier {
			out = append(out, planner.Piece{Tier: u.tier, Blocks: n - done})
			done = n
		} else {
			out[len(out)-1].Blocks += n - done
			done = n
		}
	}
	return out
}

// load brings blocks until the planner says that it is enough.
func (o *Offload[B]) load(ctx context.Context, l *Load, w Want, d planner.Decision) {
	defer o.going.Done()
	begin, loaded := time.Now(), 0
	var computing time.Duration
	if computing = d.Computing; d.Blocks == 0 && d.Probe > 0 {
		o.probe(ctx, &w, d.Probe)
	}
	if l.meets {
		o.loadBack(ctx, l, &w)
		d.Blocks, computing = 0, 0
	}
	for d.Blocks > 0 && ctx.Err() == nil {
		n := o.bring(ctx, l, &w, loaded, d.Blocks, d.Wait)
		loaded += n
		if loaded == len(w.units) || n == 0 {
			break
		}
		d = o.decide(&w, loaded, time.Since(begin))
	}
	if computing > 0 && loaded > 0 {
		o.planner.Ended(time.Since(begin), computing*time.Duration(loaded)/time.Duration(len(w.units)))
	}
	o.guard.Lock()
	defer o.guard.Unlock()
	o.stats.Loading--
	o.stats.Reason = d.Why
	l.cancel()
	close(l.Done)
}

// part is how many units from one on are loaded together: about n, of whole entries, as many as host memory has room for.
func (o *Offload[B]) part(w *Want, at, n int) (units int) {
	var bytes int64
	for i := at; i < len(w.units); {
		end, more := i, int64(0)
		for ; end < len(w.units) && w.units[end].entry == w.units[i].entry; end++ {
			more += o.bytesOf(w.units[end])
		}
		if bytes += more; bytes > o.up.bytes || units >= n {
			break
		}
		i, units = end, end-at
	}
	return units
}

// bring loads about n units from one on, waits no longer than the planner says, and returns how many are in the tree.
func (o *Offload[B]) bring(ctx context.Context, l *Load, w *Want, at, n int, wait time.Duration) int {
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	begin, brought := time.Now(), 0
	following := func(from int, wait bool) *reading {
		if from >= at+n {
			return nil
		}
		return o.read(ctx, w, w.units[from:from+o.part(w, from, at+n-from)], wait)
	}
	r := following(at, true)
	for r != nil {
		came := r.wait()
		end := at + brought + len(r.units)
		var next *reading
		if came == len(r.units) { // what follows is read while these are copied to the device
			next = following(end, false)
		} else if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			var late int64
			for _, u := range w.units[at+brought+came : max(at+n, end)] {
				late += o.bytesOf(u)
			}
			o.planner.Late(r.units[came].tier, late, time.Since(begin), time.Now())
		}
		for came > 0 && came < len(r.units) && r.units[came].entry == r.units[came-1].entry { // entries come whole
			came--
		}
		in := o.enter(l, w, at+brought, r.units, came, r.memory)
		o.giveBack(r)
		if brought += in; in < len(r.units) {
			if next != nil {
				next.wait()
				o.giveBack(next)
			}
			break
		}
		if r = next; r == nil {
			r = following(end, true)
		}
	}
	return brought
}

// reading is a part of host memory that tiers fill with units.
type reading struct {
	units    []unit
	memory   backend.HostMemory
	result   chan tier.Result
	released chan struct{}
}

// wait returns how many units came. Those know then which tier they came from.
func (r *reading) wait() int {
	result := <-r.result
	for i, k := 0, 0; i < len(result.By); i++ {
		for n := k + result.By[i]; k < n; k++ {
			r.units[k].tier = i
		}
	}
	return result.Blocks
}

// read has the tiers fill a part of host memory with units; nil: there will be none, or, unless wait is set, no part is free.
func (o *Offload[B]) read(ctx context.Context, w *Want, units []unit, wait bool) *reading {
	r := &reading{units: units, result: make(chan tier.Result, 1), released: make(chan struct{})}
	if wait {
		var err error
		if r.memory, err = o.up.part(ctx); err != nil {
			return nil
		}
	} else {
		select { // who waits with a part of its own may wait for one that waits
		case r.memory = <-o.up.parts:
		default:
			return nil
		}
	}
	job := tier.Job{Wait: true, Blocks: make([]tier.Block, len(units)), Done: func(res tier.Result) { r.result <- res }, Release: func() { close(r.released) }}
	offsets, _ := o.shape.offsets(len(units), func(i int) int { return units[i].at })
	for i, u := range units {
		var parent tier.Key
		if u.entry > 0 {
			parent = w.keys[u.entry-1]
		}
		n, key := o.bytesOf(u), w.keys[u.entry]
		job.Blocks[i] = tier.Block{Key: o.shape.key(key, u.at), Parent: o.shape.before(key, parent, u.at), Root: w.Path.Root.Key,
			Bytes: r.memory.Bytes()[offsets[i]:][:n:n]}
	}
	if err := o.mover.Load(ctx, job); err != nil {
		o.up.parts <- r.memory
		return nil
	}
	return r
}

// giveBack lets go of a part once no tier uses it: it may be put into those further up, and one that hangs keeps it.
func (o *Offload[B]) giveBack(r *reading) {
	go func() {
		<-r.released
		o.up.parts <- r.memory
	}()
}

// probe reads units for nobody, so that the planner knows how fast their tier is.
func (o *Offload[B]) probe(ctx context.Context, w *Want, n int) {
	if r := o.read(ctx, w, w.units[:o.part(w, 0, n)], true); r != nil {
		<-r.result
		o.giveBack(r)
	}
}

// enter takes blocks for the first units that came, fills them from memory and puts them into the tree behind what the load has. It
// returns how many units are there then.
func (o *Offload[B]) enter(l *Load, w *Want, first int, units []unit, came int, memory backend.HostMemory) int {
	if came == 0 {
		return 0
	}
	taken := o.take(l, w, units, came)
	if taken == nil {
		return 0
	}
	n, to := len(taken.blocks), len(w.keys)
	if first+n < len(w.units) {
		to = w.units[first+n].entry
	}
	o.guard.Lock()
	defer o.guard.Unlock()
	defer func() { o.give(taken) }() // what a quota does not admit
	var err error
	_ = o.blocks.Lend(func() error { err = o.unpack(units, taken.blocks, memory); return nil })
	if o.blocks.Observe(err) != nil || l.dropped || l.epoch != o.epoch {
		return 0
	}
	from := l.next
	if o.groups != nil {
		err = o.publishParts(l, w, units[:n], to, taken)
	} else {
		err = o.publish(l, w, to, taken)
	}
	if err != nil { // the tree was cleared meanwhile
		return 0
	}
	in := 0
	for ; in < n && units[in].entry < l.next; in++ {
		e := units[in].entry
		for l.by[e] = units[in].tier; e > l.known && l.by[e-1] < 0; e-- { // of those before it nothing is read
			l.by[e-1] = l.by[e]
		}
	}
	o.stats.Loaded += int64(in)
	if o.groups == nil {
		for i := from; i < len(l.held.blocks); i++ { // others may write the same
			o.blocks.Settled(l.held.blocks[i])
		}
	}
	return in
}

// take takes blocks for the first n units, or for as many, of whole entries, as there are; nil: there are none, or nobody
// wants them any more.
func (o *Offload[B]) take(l *Load, w *Want, units []unit, n int) (taken *hold) {
	for {
		err := o.blocks.Retry(func() (err error) {
			if l.dropped || l.epoch != o.epoch {
				n = 0
			}
			if n > 0 {
				var claim block.Claim
				h := &hold{}
				if h.blocks, err = o.blocks.Take(&claim, w.Path.Root, nil, n); err == nil {
					taken = h
					o.owned[h] = struct{}{}
				}
			}
			return err
		})
		var short block.ErrOutOfBlocks
		if !errors.As(err, &short) || short.Free >= n {
			return taken
		}
		for n = max(short.Free, 0); n > 0 && units[n].entry == units[n-1].entry; {
			n--
		}
	}
}

// at is the place in the tree behind the entries that a load has, for tokens up to an entry.
func (l *Load) at(w *Want, path []block.Block, to, size int) (prefix.Path, []uint32) {
	at := w.Path
	at.Extra = at.Extra[min(l.next, len(at.Extra)):]
	if l.next > 0 {
		at.Parent = path[l.next-1]
	}
	return at, w.Tokens[l.next*size : to*size]
}

// publish puts entries that are blocks into the tree.
func (o *Offload[B]) publish(l *Load, w *Want, to int, taken *hold) error {
	at, tokens := l.at(w, l.held.blocks, to, o.shape.tokens)
	in, err := o.blocks.Publish(nil, nil, at, tokens, taken.blocks)
	l.held.blocks = append(l.held.blocks, taken.blocks[:in]...)
	l.next, taken.blocks = l.next+in, taken.blocks[in:]
	return err
}

// unpack copies units from host memory to blocks of the device, and waits for that. The guard is not held.
func (o *Offload[B]) unpack(units []unit, blocks []block.Block, memory backend.HostMemory) error {
	o.filling.Lock()
	defer o.filling.Unlock()
	l := &o.up
	err := o.runs(len(units), func(i int) int { return units[i].at }, func(part int, order []int, offset int64) error {
		l.numbers = l.numbers[:0]
		for _, i := range order {
			if i < len(blocks) {
				l.numbers = o.shape.parts[part].Numbers(l.numbers, blocks[i])
			}
		}
		if len(l.numbers) == 0 {
			return nil
		}
		return o.shape.parts[part].Set.Unpack(l.stream, l.numbers, memory, offset)
	})
	return errors.Join(err, l.stream.Sync()) // part of it may be on its way
}

// TakeOver gives a sequence the blocks that a load brought: it owns them now, and those before it owned already. In a pool without
// groups; the guard is held, and the load has ended. from is how many of them came from each tier.
func (o *Offload[B]) TakeOver(l *Load) (blocks []block.Block, from []int) {
	blocks = append(blocks, l.held.blocks[l.base:]...)
	from = o.credit(l, l.base, l.next)
	l.held.blocks = l.held.blocks[:l.base]
	o.done(l)
	return blocks, from
}

// credit counts entries that a sequence got, and returns how many of them came from each tier.
func (o *Offload[B]) credit(l *Load, from, to int) []int {
	n := make([]int, len(o.stats.Tokens))
	for _, t := range l.by[from:to] {
		if t >= 0 {
			n[t]++
			o.stats.Tokens[t] += int64(o.shape.tokens)
		}
	}
	return n
}

// Drop gives up what a load brought, and what it will bring. The guard is held.
func (o *Offload[B]) Drop(l *Load) {
	l.cancel()
	l.dropped = true
	o.done(l)
}

// done gives up what a load owns.
func (o *Offload[B]) done(l *Load) {
	o.give(l.held)
	o.give(l.back)
	delete(o.meeting, l)
}
