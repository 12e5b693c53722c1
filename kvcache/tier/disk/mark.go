package disk

import (
	"cmp"
	"maps"
	"slices"
)

// forget takes the blocks of held slots out, those that which appends, and makes sure that they will not be found after a
// crash, nor any that were given up, cut off or quarantined before: those may be among the forgotten ones. What an earlier call could not
// take out of the table is tried again.
func (t *Tier) forget(which func([]int32) []int32) (err error) {
	t.forgetting.Lock()
	defer t.forgetting.Unlock()
	t.mu.Lock()
	x := &t.index
	var out []claim
	for _, i := range which(nil) {
		x.forget(i)
		out = append(out, claim{slot: i, entry: x.slots[i].entry})
	}
	x.free = slices.DeleteFunc(x.free, func(i int32) bool {
		s := &x.slots[i]
		if !s.marked {
			s.state = busy
			out = append(out, claim{slot: i, entry: s.entry})
		}
		return !s.marked
	})
	var quarantined []int32
	for i := 0; x.bad > 0 && i < len(x.slots); i++ {
		if s := &x.slots[i]; s.state == bad && !s.marked {
			quarantined = append(quarantined, int32(i))
		}
	}
	t.mu.Unlock()
	t.awaitWriting() // to slots whose blocks were given up
	for _, c := range out {
		if e := t.overwrite(c.slot, c.entry.generation); e != nil {
			err = e
		}
	}
	for _, i := range quarantined {
		if e := t.markBad(i); e != nil {
			err = e
		}
	}
	if e := t.settled(); err == nil {
		err = e
	}
	t.mu.Lock()
	for _, c := range out {
		x.slots[c.slot].marked = err == nil
		x.release(c.slot)
	}
	t.mu.Unlock()
	return err
}

// awaitWriting waits for blocks that are being written now.
func (t *Tier) awaitWriting() {
	t.mu.Lock()
	writing := slices.Collect(maps.Values(t.writing))
	t.mu.Unlock()
	for _, w := range writing {
		<-w
	}
}

// settled ensures that what was overwritten in the table, or cut off, is not found again.
func (t *Tier) settled() (err error) {
	t.mu.Lock()
	uncut := t.uncut
	t.mu.Unlock()
	if uncut {
		err = t.shrink(0, nil)
	}
	t.mu.Lock()
	lost, more := t.lost != nil, t.synced != t.marks
	t.mu.Unlock()
	var e error
	switch {
	case lost:
		e = t.writeAnew()
	case more:
		e = t.syncTable()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(err, e, t.lost) // another sync may have failed meanwhile
}

// markBad takes the entry of a quarantined slot out of the table. If it stays, it costs another look, until the block is
// to be forgotten.
func (t *Tier) markBad(i int32) error {
	t.sizing.Lock() // the slot is not cut off meanwhile
	defer t.sizing.Unlock()
	t.mu.Lock()
	still := int(i) < len(t.index.slots) && t.index.slots[i].state == bad
	var generation uint64
	if still {
		generation = t.index.slots[i].generation
	}
	t.mu.Unlock()
	if !still {
		return nil
	}
	if err := t.overwrite(i, generation); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.index.slots[i].marked = true
	return nil
}
