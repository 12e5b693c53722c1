package block

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Check is the judge of every other test, so it is shown to find each kind of damage.
func TestCheckFindsDamage(t *testing.T) {
	for name, damage := range map[string]func(a *BlockAllocator){
		"free counter":                     func(a *BlockAllocator) { a.free++; a.cached-- },
		"cached counter":                   func(a *BlockAllocator) { a.cached-- },
		"reserved counter":                 func(a *BlockAllocator) { a.reserved-- },
		"peak below held":                  func(a *BlockAllocator) { a.peak = 0 },
		"peak above total":                 func(a *BlockAllocator) { a.peak = 99 },
		"held block in the list":           func(a *BlockAllocator) { a.nodes[4].refs = 1 },
		"held block with a link":           func(a *BlockAllocator) { a.nodes[0].next = 3 },
		"held block without generation":    func(a *BlockAllocator) { a.nodes[0].gen = 0 },
		"unowned block outside the list":   func(a *BlockAllocator) { a.nodes[0].refs = free },
		"cached block without generation":  func(a *BlockAllocator) { a.nodes[1].gen = 0 },
		"impossible state":                 func(a *BlockAllocator) { a.nodes[4].refs = -2 },
		"free block in the ring":           func(a *BlockAllocator) { a.nodes[2].refs = free },
		"stack with a cycle":               func(a *BlockAllocator) { a.nodes[5].next = 3 },
		"stack out of range":               func(a *BlockAllocator) { a.nodes[5].next = 77 },
		"ring link back":                   func(a *BlockAllocator) { a.nodes[1].prev = 4 },
		"ring out of range":                func(a *BlockAllocator) { a.nodes[1].next = 77 },
		"ring without its last block":      func(a *BlockAllocator) { a.nodes[a.head].prev = 2 },
		"claim of another allocator":       func(a *BlockAllocator) { a.claims.next.owner = nil },
		"claim larger than the free space": func(a *BlockAllocator) { a.claims.next.blocks += 9; a.reserved += 9 },
	} {
		t.Run(name, func(t *testing.T) {
			a, err := New(6)
			require.NoError(t, err)
			b := take(t, a, 3)
			require.NoError(t, a.ReleaseN(b[1:], 2)) // 0 is held, 1 and 2 are cached
			require.NoError(t, a.Reserve([]Reservation{{&Claim{}, 2}}))
			require.Equal(t, []uint32{3, 4, 5, 2, 1}, order(a))
			require.NoError(t, a.Check())
			damage(a)
			require.ErrorIs(t, a.Check(), ErrCorrupt)
		})
	}
}
