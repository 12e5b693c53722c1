package offload

import (
	"context"
	"errors"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
)

// Transfer is blocks on their way up. It owns those that are there, and those before them, until they are taken over or dropped.
type Transfer struct {
	Done chan struct{} // closed when no more will come

	cancel  context.CancelFunc
	held    *hold // what was there before the load, and what came; guarded
	next    int   // the entry that is put into the tree next
	known   int   // entries of which the tree had something
	by      []int // of each entry the tier that its last payload came from; −1: none did
	epoch   int
	dropped bool
	owes    []int64 // bytes that each tier still has to deliver

	// Of a load that meets: see meet.go.
	meets         bool
	wanted, front int   // blocks, and those that the sequence has computed
	back          *hold // the last ones
	begun         time.Time
	computing     time.Duration // what computing all of them was expected to take
}

// First is the first entry that the load brings something of, before it brings any. The guard is held.
func (l *Transfer) First() int { return l.next }

// Cancel has no more blocks come.
func (l *Transfer) Cancel() { l.cancel() }

// Begin loads what of a prompt is worth it; nil: nothing is. It returns why, too, if that was the planner's decision. The guard is held.
func (o *Offload[B]) Begin(w Request) (*Transfer, string) {
	if o.closed || o.erasing > 0 || len(w.keys) == 0 {
		return nil, ""
	}
	w.epoch = o.epoch
	h, known, next := o.holdWanted(&w)
	if h == nil {
		return nil, ""
	}
	for _, u := range w.units {
		w.bytes += o.bytesOf(u)
	}
	d := o.decide(&w, 0, 0)
	if o.stats.Reason = d.Why; d.Blocks == 0 {
		o.give(h)
		if d.Probe > 0 && o.probing.CompareAndSwap(false, true) { // one at a time
			o.going.Add(1)
			go o.probe(&w, d.Probe)
		}
		return nil, d.Why
	}
	l := &Transfer{Done: make(chan struct{}), held: h, next: next, known: known, by: make([]int, len(w.keys)), epoch: o.epoch, owes: make([]int64, len(o.queued))}
	if o.shape.full == 0 {
		l.known = 0
	}
	for i := range l.by {
		l.by[i] = -1
	}
	l.meets, l.wanted, l.back, l.begun, l.computing = d.Choice == planner.Meet, len(w.units), &hold{}, time.Now(), d.Computing
	o.owned[l.held], o.owned[l.back] = struct{}{}, struct{}{}
	first := 0
	if l.meets {
		first, o.meeting[l] = len(w.units)-d.Blocks, struct{}{}
	}
	o.owe(l, w.units[first:first+d.Blocks])
	o.stats.Loading++
	ctx, cancel := context.WithCancel(o.end)
	l.cancel = cancel
	o.going.Add(1)
	go o.load(ctx, l, w, d)
	return l, d.Why
}

func (o *Offload[B]) bytesOf(u unit) int64 {
	return o.shape.parts[o.shape.places[u.at].part].BlockBytes()
}

// owe notes which units a load still has to bring. The guard is held.
func (o *Offload[B]) owe(l *Transfer, units []unit) {
	for t := range o.queued {
		o.queued[t] -= l.owes[t]
		l.owes[t] = 0
	}
	for _, u := range units {
		l.owes[u.tier] += o.bytesOf(u)
	}
	for t, n := range l.owes {
		o.queued[t] += n
	}
}

// decide says what to do next of a load that has brought some of its units, the first ones, and taken a while, and owes none. The blocks of
// which it speaks are units. The planner is asked about as many entries as would have to be computed. The guard is held.
func (o *Offload[B]) decide(w *Request, loaded int, waited time.Duration) planner.Decision {
	size, units := o.shape.tokens, len(w.units)
	entries := max((w.gain+size-1)/size, 1)
	q := planner.Prompt{BlockTokens: size, BlockBytes: max(w.bytes/int64(entries), 1), Context: len(w.Tokens) - w.gain,
		Loaded: loaded * entries / max(units, 1), Waited: waited, Asked: w.Asked, Both: w.Both && loaded == 0, Now: time.Now(), Pieces: w.pieces(entries),
		Queued: o.queued, Trust: true, Whole: o.shape.full < len(o.shape.places)} // layers that see a part of it need the end
	d := o.planner.Decide(q)
	d.Blocks, d.Probe = (d.Blocks*units+entries-1)/entries, (d.Probe*units+entries-1)/entries
	d.Blocks, d.Probe = min(d.Blocks, units-loaded), min(d.Probe, units-loaded)
	return d
}

// pieces is the entries that are wanted, by the tiers that their payloads come from.
func (w *Request) pieces(entries int) (out []planner.Piece) {
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
func (o *Offload[B]) load(ctx context.Context, l *Transfer, w Request, d planner.Decision) {
	defer o.going.Done()
	begin, loaded, computing := time.Now(), 0, d.Computing
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
		o.guard.Lock()
		o.owe(l, nil)
		d = o.decide(&w, loaded, time.Since(begin))
		o.owe(l, w.units[loaded:loaded+d.Blocks])
		o.guard.Unlock()
	}
	o.guard.Lock()
	defer o.guard.Unlock()
	if computing > 0 && !l.dropped { // else nobody waited
		o.planner.Ended(time.Since(begin), computing*time.Duration(loaded)/time.Duration(len(w.units)))
	}
	o.owe(l, nil)
	o.stats.Loading--
	o.stats.Reason = d.Why
	l.cancel()
	close(l.Done)
}

// part is how many units from one on are loaded together: about n, of whole entries, as many as host memory has room for.
func (o *Offload[B]) part(w *Request, at, n int) (units int) {
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
func (o *Offload[B]) bring(ctx context.Context, l *Transfer, w *Request, at, n int, wait time.Duration) int {
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
		came := r.wait(ctx)
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

// Drop gives up what a load brought, and what it will bring. The guard is held.
func (o *Offload[B]) Drop(l *Transfer) {
	l.cancel()
	l.dropped = true
	o.done(l)
}

// done gives up what a load owns.
func (o *Offload[B]) done(l *Transfer) {
	o.give(l.held)
	o.give(l.back)
	delete(o.meeting, l)
}
