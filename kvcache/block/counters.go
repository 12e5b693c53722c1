package block

// Total is the number of blocks: Free + Cached + Held at any moment.
func (a *BlockAllocator) Total() int { return int(a.head) }

// Free is the number of blocks without an owner and without valid content.
func (a *BlockAllocator) Free() int { return a.free }

// Cached is the number of blocks without an owner that Take can bring back.
func (a *BlockAllocator) Cached() int { return a.cached }

// Held is the number of blocks with at least one owner.
func (a *BlockAllocator) Held() int { return a.Total() - a.free - a.cached }

// Peak is the largest Held there ever was.
func (a *BlockAllocator) Peak() int { return a.peak }

// Reserved is the number of blocks, free or cached, that claims hold.
func (a *BlockAllocator) Reserved() int { return a.reserved }

// Available is what can be allocated or taken without a claim:
// Free + Cached − Reserved.
func (a *BlockAllocator) Available() int { return a.free + a.cached - a.reserved }

// Refs is the number of owners of b, 0 for a block that was released and not yet
// handed out again.
func (a *BlockAllocator) Refs(b Block) (int, error) {
	n, err := a.lookup("count owners of", b)
	if err != nil {
		return 0, err
	}
	return int(max(n.refs, 0)), nil
}
