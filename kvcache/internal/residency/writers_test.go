package residency

import "slices"

// writers are, of each token of a block, the steps without all of which it is not there: the one that wrote it, and those that
// copied it.
type writers [blockTokens][]*work

// with is the writers after w has written tokens from one on, up to another.
func (ws writers) with(w *work, from, to int) writers {
	for i := from; i < to; i++ {
		ws[i] = []*work{w}
	}
	return ws
}

// copied is the writers after w has copied the first n tokens from a block that others wrote.
func (ws writers) copied(from writers, w *work, n int) writers {
	for i := range n {
		ws[i] = append(slices.Clone(from[i]), w)
	}
	return ws
}

// failed reports whether a token is not there.
func (ws writers) failed() bool {
	return slices.ContainsFunc(ws[:], func(steps []*work) bool {
		return slices.ContainsFunc(steps, func(w *work) bool { return w.err != nil })
	})
}
