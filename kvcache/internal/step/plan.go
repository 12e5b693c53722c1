package step

import "github.com/ferrumkv/ferrumkv/backend"

// work is what a step does in a part, by what the part holds: rows of tokens in one store or in two, or states.
type work interface {
	// stage decides what each entry has of the stores before the last, and whether the step is a long one.
	stage()
	// lay computes the host side, and asks the device how it divides the step.
	lay() error
	// enqueue puts the step's uploads and copies on its stream.
	enqueue() error
	// scores reports whether attention can add scores where a caller or the pool keeps them.
	scores() bool
	// spares reports whether a block that several own may be written by one of them while the step copies it for the others.
	spares() bool
}

// rows is the work in a part with keys and values.
type rows[B backend.Buffer] struct{ *Step[B] }

func (rows[B]) stage()       {}
func (rows[B]) scores() bool { return true }
func (rows[B]) spares() bool { return true }

func (b rows[B]) lay() error {
	b.Lay()
	return b.Divide()
}

func (b rows[B]) enqueue() error {
	if err := b.upload(); err != nil {
		return err
	}
	return b.clearNew()
}

// upload brings the step's index to the device, and copies what it writes into for others.
func (b rows[B]) upload() error {
	if err := b.Index.Upload(b.Part.BE, b.Stream); err != nil {
		return err
	}
	if err := b.uploadViews(); err != nil {
		return err
	}
	return b.copyShared()
}

// clearNew lets the step's new tokens begin without scores.
func (b rows[B]) clearNew() error {
	p := b.Part
	if p.Config.Attention.Scores && b.writes && !b.staging.on {
		for l := range p.Written.Layers {
			if err := b.clearScores(&p.Written.Layers[l]); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyShared copies the shared blocks that the step writes into, in every layer.
func (b *Step[B]) copyShared() error {
	ix := &b.Index
	ix.Pairs.Host = ix.Pairs.Host[:0]
	for i := range b.entries {
		if e := &b.entries[i]; e.copies {
			ix.Pairs.Host = b.Part.Written.Pair(ix.Pairs.Host, e.run.Tail(), e.fresh.Blocks[e.restored])
		}
	}
	return b.Part.CopyBlocks(b.Stream, b.Part.Written, &ix.Pairs)
}
