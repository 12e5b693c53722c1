package step

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// Rejoin puts the step's stream after the steps on others that read the same sequences meanwhile: a sequence that waits for this
// step's end waits for theirs.
func (b *Set[B]) Rejoin() error {
	if !b.reads {
		return nil
	}
	for i := range b.Steps[0].entries {
		if e := &b.Steps[0].entries[i]; !e.write {
			if err := b.runs(i).Order(b.Stream); err != nil {
				return err
			}
		}
	}
	return nil
}

// Abandon gives back what a planned step took, once the device is past what was
// enqueued for it.
func (b *Set[B]) Abandon() error {
	for i := range b.Steps {
		b.Steps[i].spoil()
	}
	fences := &b.parts.Fences
	err := b.Rejoin()
	var f *residency.Fence
	if err == nil {
		f, err = fences.Record(b.parts.BE, b.Stream)
	}
	if err != nil {
		return errors.Join(fences.Observe(residency.Drain(b.Stream)), b.giveBack(nil))
	}
	err = b.giveBack(f.Hold())
	b.Used(f)
	for i := range b.Steps[0].entries {
		b.runs(i).Used(f) // it may have written after the tokens of the last block
	}
	fences.Drop(f)
	return err
}

func (b *Set[B]) giveBack(f *residency.Fence) (err error) {
	for i := range b.Steps {
		err = errors.Join(err, b.Steps[i].giveBack(f))
	}
	return err
}

// Commit hands the step's blocks to the sequences, after the step's fence. They are the sequences' also with an error.
func (b *Set[B]) Commit(f *residency.Fence) (err error) {
	for i := range b.Steps {
		for j := range b.Steps[i].entries {
			if failed := b.Steps[i].entries[j].commit(f); err == nil {
				err = failed
			}
		}
	}
	return err
}

// Leave brings the last blocks of layers that use one cache in turn where they belong.
func (b *Set[B]) Leave() error {
	for i := range b.Steps {
		if err := b.Steps[i].leave(); err != nil {
			return err
		}
	}
	return nil
}

// Used replaces the step's fence by that of a later one.
func (b *Set[B]) Used(f *residency.Fence) {
	for i := range b.Steps {
		t := &b.Steps[i]
		t.Part.Fences.Replace(&t.fence, f)
	}
}

// Clear forgets the entries, whose blocks were given back or committed.
func (b *Set[B]) Clear() {
	for i := range b.Steps {
		b.Steps[i].clear()
	}
	b.reads = false
	if b.spelled {
		b.calls.clear()
	}
}
