package step

// Keep moves the accepted nodes of the step's trees together, in every layer: they are among the step's new tokens, in slots
// that are its own, so that a reset of the step loses nothing.
func (b *Set[B]) Keep() error {
	for i := range b.Steps {
		if err := b.Steps[i].keep(); err != nil {
			return err
		}
	}
	return nil
}

func (b *Step[B]) keep() error {
	p := b.Part
	b.moves.Host = b.moves.Host[:0]
	for j := range b.calls.calls {
		c := &b.calls.calls[j]
		e := &b.entries[c.entry]
		for i, node := range b.accepted(c) {
			if i != node {
				b.moves.Host = append(b.moves.Host, e.slot(e.run.Len+c.at+node), e.slot(e.run.Len+c.at+i))
			}
		}
	}
	if len(b.moves.Host) == 0 {
		return nil
	}
	if err := b.moves.Upload(p.BE, b.Stream); err != nil {
		return err
	}
	p.LockScores()
	defer p.UnlockScores()
	for i := range p.Written.Layers {
		if err := p.MoveSlots(b.Stream, &p.Written.Layers[i], &b.moves); err != nil {
			return err
		}
	}
	return nil
}

// slot is where a token of the entry's part is.
func (e *entry[B]) slot(token int) int64 {
	slots := e.run.Part.Config.BlockTokens()
	return e.run.Part.Written.Slot(e.block(token/slots), token%slots)
}
