package offload

// Incoming is what a sequence waits for.
type Incoming struct {
	Transfer *Transfer
	End      int // of the tokens that are loaded, in the prompt
	Base     int // the sequence's when it was opened
	First    int // block of the sequence that it brings
}

// Rest is how many of the tokens that are loaded a sequence of so many lacks: it may have the beginning of a block.
func (a *Incoming) Rest(have int) int { return a.End - have }

// ToMeet is how many of the next n tokens of a sequence that has some to compute so that it can meet what comes from the last block on: up
// to where that begins, and whole blocks of a size. The guard is held.
func (a *Incoming) ToMeet(have, n, size int) int {
	if a == nil || !a.Transfer.Meets() {
		return n
	}
	if border := (a.First + a.Transfer.Between()) * size; border > have {
		n = min(n, border-have)
	}
	if end := (have + n) / size * size; end > have {
		n = end - have
	}
	return n
}
