package store

import "github.com/ferrumkv/ferrumkv/backend"

// CopyBlocks, Convert and CopyScores enqueue nothing where there are no pairs.

// CopyBlocks copies blocks within a store, in every layer: pairs [n, 2], from and to.
func (p *Part[B]) CopyBlocks(s backend.Stream, st *Store[B], pairs *Vector[B, uint32]) error {
	if len(pairs.Host) == 0 {
		return nil
	}
	if err := pairs.Upload(p.BE, s); err != nil {
		return err
	}
	p.LockScores()
	defer p.UnlockScores()
	for i := range st.Layers {
		if err := p.copyBlocks(s, &st.Layers[i], &st.Layers[i], pairs); err != nil {
			return err
		}
	}
	return nil
}

func (p *Part[B]) copyBlocks(s backend.Stream, from, to *Layer[B], pairs *Vector[B, uint32]) error {
	return p.BE.CopyBlocks(s, backend.CopyBlocksParams[B]{
		From: from.View, To: to.View, FromScores: from.Scores, ToScores: to.Scores, Pairs: pairs.Buf.Buf, N: len(pairs.Host) / 2})
}

// Convert stores blocks of a layer in another store: pairs [n, 2], which are on the device.
func (p *Part[B]) Convert(s backend.Stream, from, to *Layer[B], pairs *Vector[B, uint32]) error {
	if len(pairs.Host) == 0 {
		return nil
	}
	if from.View.K.Data.DType() == to.View.K.Data.DType() { // a layer that is not quantized: see Storage.SkipLayers
		return p.copyBlocks(s, from, to, pairs)
	}
	return p.BE.ConvertBlocks(s, backend.ConvertBlocksParams[B]{
		From: from.View, To: to.View, FromScores: from.Scores, ToScores: to.Scores, Pairs: pairs.Buf.Buf, N: len(pairs.Host) / 2,
		Saturate: p.Config.Storage.Saturate})
}

// CopyScores copies the scores of blocks of a layer to another store: pairs [n, 2], which are on the device.
func (p *Part[B]) CopyScores(s backend.Stream, from, to *Layer[B], pairs *Vector[B, uint32]) error {
	if len(pairs.Host) == 0 {
		return nil
	}
	return p.BE.CopyBlocks(s, backend.CopyBlocksParams[B]{From: from.View, To: to.View, FromScores: from.Scores, ToScores: to.Scores,
		Pairs: pairs.Buf.Buf, N: len(pairs.Host) / 2, ScoresOnly: true})
}

// BringScores gives the written store the scores of blocks that lie in the kept one, too, in every layer: pairs [n, 2], which are on
// the device.
func (p *Part[B]) BringScores(s backend.Stream, pairs *Vector[B, uint32]) error {
	p.LockScores()
	defer p.UnlockScores()
	for l := range p.Written.Layers {
		if err := p.CopyScores(s, &p.Kept.Layers[l], &p.Written.Layers[l], pairs); err != nil {
			return err
		}
	}
	return nil
}

// MoveSlots moves tokens of a layer within a store: pairs [n, 2] of slots, which are on the device.
func (p *Part[B]) MoveSlots(s backend.Stream, l *Layer[B], pairs *Vector[B, int64]) error {
	return p.BE.MoveSlots(s, backend.MoveSlotsParams[B]{Cache: l.View, Scores: l.Scores, Pairs: pairs.Buf.Buf, N: len(pairs.Host) / 2})
}

// ClearScores sets the scores of n slots of a layer to 0.
func (p *Part[B]) ClearScores(s backend.Stream, l *Layer[B], slots B, n int) error {
	return p.BE.ClearScores(s, backend.ClearScoresParams[B]{Scores: l.Scores.Buf, Blocks: l.View.Blocks, KVHeads: l.View.KVHeads,
		BlockSize: l.View.BlockSize, Slots: slots, N: n})
}
