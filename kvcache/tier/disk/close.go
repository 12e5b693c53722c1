package disk

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Close waits for the calls in progress, notes in the table when blocks were last used, syncs, and closes the files. A second
// call does nothing.
func (t *Tier) Close() error {
	t.mu.Lock()
	if !t.open {
		t.mu.Unlock()
		return nil
	}
	t.open = false
	t.mu.Unlock()
	t.calls.Wait()
	close(t.done)
	<-t.stopped
	var err error
	if !t.gone {
		err = errors.Join(t.noteUses(), t.syncAll())
	}
	if e := t.closeFiles(); err == nil {
		err = e
	}
	if err != nil {
		return tier.ErrFailed{Name: name, Op: "close", Err: err}
	}
	return nil
}

func (t *Tier) closeFiles() (err error) {
	for _, f := range []file{t.data, t.table, t.lock} {
		if f == nil {
			continue
		}
		if e := f.Close(); err == nil && !t.gone {
			err = e
		}
	}
	return err
}

// noteUses writes the entries of the blocks that were used since theirs were written.
func (t *Tier) noteUses() error {
	for i := range t.index.slots {
		if s := &t.index.slots[i]; s.state == held && s.moved {
			if err := t.writeEntry(int32(i), &s.entry); err != nil {
				return err
			}
			s.moved = false
		}
	}
	return nil
}
