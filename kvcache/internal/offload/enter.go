package offload

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// enter takes blocks for the first units that came, fills them from memory and puts them into the tree behind what the load has. It
// returns how many units are there then.
func (o *Offload[B]) enter(l *Transfer, w *Request, first int, units []unit, came int, memory *part) int {
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
	for _, b := range taken.blocks { // they are below
		o.ready.begin(b)
	}
	from := l.next
	if err = o.publish(l, w, units[:n], to, taken); err != nil { // the tree was cleared meanwhile
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
	for i := from; i < min(l.next, len(o.entries(l.held))); i++ { // others may write the same
		o.blocks.Settled(o.entries(l.held)[i])
	}
	return in
}

// take takes blocks for the first n units, or for as many, of whole entries, as there are; nil: there are none, or nobody
// wants them any more.
func (o *Offload[B]) take(l *Transfer, w *Request, units []unit, n int) (taken *hold) {
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
func (l *Transfer) at(w *Request, path []block.Block, to, size int) (prefix.Path, []uint32) {
	at := w.Path
	at.Extra = at.Extra[min(l.next, len(at.Extra)):]
	if l.next > 0 {
		at.Parent = path[l.next-1]
	}
	return at, w.Tokens[l.next*size : to*size]
}

// unpack copies units from host memory to blocks of the device, and waits for that. The guard is not held.
func (o *Offload[B]) unpack(units []unit, blocks []block.Block, memory *part) error {
	o.filling.Lock()
	defer o.filling.Unlock()
	l := &o.up
	err := o.runs(len(units), func(i int) int { return units[i].at }, func(part int, order []int, offset int64) error {
		l.numbers = l.numbers[:0]
		for _, i := range order {
			if i < len(blocks) {
				l.numbers = o.shape.parts[part].All(l.numbers, blocks[i].ID)
			}
		}
		if len(l.numbers) == 0 {
			return nil
		}
		return o.shape.parts[part].Set.Unpack(l.stream, l.numbers, memory.HostMemory, offset)
	})
	return errors.Join(err, l.stream.Sync()) // part of it may be on its way
}

// publish puts entries and blocks with them into the tree.
func (o *Offload[B]) publish(l *Transfer, w *Request, units []unit, to int, taken *hold) error {
	type where struct{ part, i int }
	own := map[where]*block.Block{}
	for i, u := range units {
		p := o.shape.places[u.at]
		own[where{p.part, (u.entry-l.next)*o.shape.rules[p.part].Each + p.i}] = &taken.blocks[i]
	}
	at, tokens := l.at(w, o.entries(l.held), to, o.shape.tokens)
	from := min(l.next, len(l.held.path)) // none, where entries are blocks
	path, was := append([]block.Block(nil), l.held.path[:from]...), l.held.path[from:]
	n, path, err := o.blocks.Publish(nil, nil, path, at, tokens, func(part, i int) *block.Block { return own[where{part, i}] })
	again := min(len(path)-from, len(was)) // of those it was an owner
	if err == nil {
		err = o.blocks.RetirePath(nil, was[:again])
	}
	l.next, l.held.path = l.next+n, append(path, was[again:]...)
	left := taken.blocks[:0]
	for i, u := range units {
		if b := taken.blocks[i]; u.entry < l.next {
			l.held.blocks = append(l.held.blocks, b)
		} else {
			left = append(left, b)
		}
	}
	taken.blocks = left
	return err
}
