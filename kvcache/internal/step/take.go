package step

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// take takes what the entries need of all stores, or gives back what it took.
func (b *Step[B]) take() error {
	b.stage()
	err := b.takeBlocks()
	if err == nil {
		return nil
	}
	err = errors.Join(err, b.giveBack(nil))
	if !b.Part.Written.Unpublish(err, b.tails()) {
		return err
	}
	b.stage()
	if err := b.takeBlocks(); err != nil {
		return errors.Join(err, b.giveBack(nil))
	}
	return nil
}

// tails are the blocks that the step's sequences write next.
func (b *Step[B]) tails() (blocks []block.Block) {
	for i := range b.entries {
		if e := &b.entries[i]; e.write {
			blocks = append(blocks, e.run.Tail())
		}
	}
	return blocks
}

// takeBlocks takes what each entry needs. On failure the caller gives back.
func (b *Step[B]) takeBlocks() error {
	p := b.Part
	b.taken = b.taken[:0]
	need, err := p.Written.Fits(b.countBlocks) // before anything is evicted
	if err != nil {
		return err
	}
	for i := range p.Sealed() {
		if err := b.takeSealed(i); err != nil {
			return err
		}
	}
	for i := range b.entries {
		e := &b.entries[i]
		n := e.need
		if n == 0 { // most entries of a decode step
			continue
		}
		had := len(b.taken)
		var err error
		if b.taken, err = p.Written.TakeFor(e.run.Written, &e.fresh, e.run.Root, b.taken, n); err != nil {
			return ofStep(err, need, had)
		}
	}
	at := 0
	for i := range b.entries {
		n := b.entries[i].need
		b.entries[i].fresh.Blocks = b.taken[at : at+n : at+n]
		at += n
	}
	return nil
}

// ofStep makes what one sequence lacks, when others had some already, what the whole step lacks.
func ofStep(err error, need, had int) error {
	var short block.ErrOutOfBlocks
	if errors.As(err, &short) {
		return block.ErrOutOfBlocks{Need: need, Free: short.Free + had}
	}
	return err
}

// countBlocks decides which entries copy their last block and returns how many blocks
// the step needs, and how many of them claims promise.
func (b *Step[B]) countBlocks() (need, promised int, err error) {
	for i := range b.entries {
		e := &b.entries[i]
		e.fresh, e.copies = store.Owned{Claimed: e.run.Written.Claim.Blocks()}, false
		if failed := e.run.Of.Failed; failed != nil { // since it was added
			return 0, 0, fmt.Errorf("%w", failed)
		}
		if e.write && !e.staged.long {
			if e.copies, err = e.run.TailShared(); err != nil {
				return 0, 0, err
			}
		}
	}
	for i := range b.entries {
		e := &b.entries[i]
		if e.copies && b.keeps(e) {
			e.copies = false
		}
		e.need = e.needs()
		need, promised = need+e.need, promised+min(e.need, e.fresh.Claimed)
	}
	return need, promised, nil
}

// keeps reports whether an entry may write into its shared last block because
// every other owner gets a copy in this very step. It is the owner with the most
// tokens in it, so that it writes after all of theirs: should the step be
// abandoned, nobody's tokens have changed.
func (b *Step[B]) keeps(e *entry[B]) bool {
	fresh, slots := b.Part.Written, b.Part.Config.BlockTokens()
	if !b.work.spares() || fresh.Published(e.run.Tail()) {
		return false
	}
	owners, err := fresh.Owners(e.run.Tail())
	for i := range b.entries {
		o := &b.entries[i]
		if !o.copies || o.run.Tail() != e.run.Tail() {
			continue
		}
		if o.run.Len%slots > e.run.Len%slots {
			return false
		}
		owners--
	}
	return err == nil && owners == 0
}

// giveBack returns the step's blocks after f, and to the claims what they had promised.
func (b *Step[B]) giveBack(f *residency.Fence) (err error) {
	p, fresh, sealed := b.Part, b.taken, b.sealing.taken
	for i := range b.entries {
		e := &b.entries[i]
		n := min(e.need, len(fresh)) // of a step that lacked some the last entries have none
		err = cmp.Or(err, p.Written.GiveBack(e.run.Written, &e.fresh, fresh[:n], f))
		e.copies, e.restored, fresh = false, 0, fresh[n:]
		for j, st := range p.Sealed() {
			n = min(e.seals(), len(sealed))
			err = cmp.Or(err, st.GiveBack(&e.run.Segments[j], &e.sealed, sealed[:n], f))
			sealed = sealed[n:]
		}
	}
	b.taken, b.sealing.taken = b.taken[:0], b.sealing.taken[:0]
	return err
}
