package disk

// writeAnew rewrites the whole table, and syncs it. The system may count what a failed sync did not bring to the disk as
// written, so that no later sync does; an earlier process's syncs are unknown. The caller forgets, so that slots
// are held, free, bad, or its own, and stay so while nothing is written to them.
func (t *Tier) writeAnew() error {
	if t.o.Durable { // a waiting Put would keep blocks in writing, for which this waits
		t.durable.Lock()
		defer t.durable.Unlock()
	}
	done := make(chan struct{})
	t.mu.Lock()
	t.anew = done
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.anew = nil
		t.mu.Unlock()
		close(done)
	}()
	t.awaitWriting()
	t.sizing.Lock()
	defer t.sizing.Unlock()
	t.mu.Lock()
	t.lost = nil // unless a sync fails from now on
	entries := make([]entry, len(t.index.slots))
	for i := range entries {
		if s := &t.index.slots[i]; s.state == held {
			entries[i] = s.entry
		} else {
			entries[i].generation = s.generation
		}
	}
	t.mu.Unlock()
	if err := t.rewrite(entries); err != nil {
		t.lose(err)
		return err
	}
	return t.syncTable()
}

// lose notes that syncs of the table prove nothing until it is rewritten.
func (t *Tier) lose(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = err
}

// rewrite writes entries that may be in the table already, a piece of the table at a time. A block's entry is written with the bytes that
// are there, because a failed write of other bytes could lose it.
func (t *Tier) rewrite(entries []entry) error {
	b := make([]byte, min(tablePiece, len(entries))*entryBytes)
	for from := 0; from < len(entries); from += tablePiece {
		piece := b[:min(tablePiece, len(entries)-from)*entryBytes]
		at := page + int64(from)*entryBytes
		n, _ := t.table.ReadAt(piece, at)
		clear(piece[n:]) // what cannot be read is written as known
		for i := range len(piece) / entryBytes {
			e, to := &entries[from+i], piece[i*entryBytes:][:entryBytes]
			if is, ok := t.codec.readEntry(to, from+i); ok && e.length > 0 && is.key == e.key && is.generation == e.generation {
				continue
			}
			if err := t.codec.writeEntry(to, from+i, e); err != nil {
				return err
			}
		}
		if _, err := t.table.WriteAt(piece, at); err != nil {
			return err
		}
	}
	return nil
}
