package disk

import "slices"

// forget takes the blocks of held slots out, those that which appends, and makes sure that they will not be found after a
// crash, nor any that were given up, cut off or quarantined before: those may be among the forgotten ones. What an earlier call could not
// take out of the table is tried again.
func (t *Tier) forget(which func([]int32) []int32) (err error) {
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
	var writing []chan struct{} // to slots whose blocks were given up
	for _, w := range t.writing {
		writing = append(writing, w)
	}
	t.mu.Unlock()
	for _, w := range writing {
		<-w
	}
	for _, c := range out {
		if e := t.writeEntry(c.slot, &entry{generation: c.entry.generation}); e != nil {
			err = e
		}
	}
	for _, i := range quarantined {
		if e := t.markBad(i); e != nil {
			err = e
		}
	}
	if e := t.settled(len(out) > 0); err == nil {
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

// settled makes sure that what was overwritten in the table, or cut off, is not found again. more: something was that is not counted.
func (t *Tier) settled(more bool) (err error) {
	t.mu.Lock()
	uncut, more := t.uncut, more || t.synced != t.marks
	t.mu.Unlock()
	if uncut {
		err = t.shrink(0, nil)
	}
	if more {
		if e := t.syncTable(); err == nil {
			err = e
		}
	}
	return err
}

// markBad takes the entry of a quarantined slot out of the table. If it stays, it costs another look, until the block is
// to be forgotten.
func (t *Tier) markBad(i int32) error {
	t.sizing.Lock() // the slot is not cut off meanwhile
	defer t.sizing.Unlock()
	t.mu.Lock()
	still := int(i) < len(t.index.slots) && t.index.slots[i].state == bad
	var e entry
	if still {
		e.generation = t.index.slots[i].generation
		t.marks++
	}
	t.mu.Unlock()
	if !still {
		return nil
	}
	if err := t.writeEntry(i, &e); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.index.slots[i].marked = true
	return nil
}
