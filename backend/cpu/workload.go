package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// workload is what the plan and its call must agree on.
type workload struct {
	qHeads, kvHeads, vDim int
	block                 int // slots of a block
	tileRows              int
	see                   plan.Visibility
	withMass              bool
	viewed                bool // calls have views
	treeWords             int  // 0: no tree
}

// tileTokens is how many tokens' queries make a tile.
func (l *workload) tileTokens() int { return max(l.tileRows/(l.qHeads/l.kvHeads), 1) }

// tileRows is how many rows a tile has. Reproducible results need tiles that are all walked
// alike.
func (be *Backend) tileRows() int {
	if be.kernels.gemm == nil || be.fixed {
		return tileRows
	}
	return tallRows
}

// together is how many KV heads walk the keys of a tile of that many rows side by side, but no more than most.
func (l *workload) together(rows, most int) int {
	if rows > fewRows || l.block > smallBlock {
		return 1
	}
	return min(l.kvHeads, most)
}

func (l *workload) fingerprint() plan.Fingerprint {
	flags := 0
	if l.see.NonCausal {
		flags |= 1
	}
	if l.withMass {
		flags |= 2
	}
	if l.viewed {
		flags |= 4
	}
	return plan.NewFingerprint(l.qHeads, l.kvHeads, l.vDim, flags, l.treeWords)
}

// workspace is the f32 elements of a call: the log-sum-exp of every row where the
// attention scores are wanted, the partial results with theirs, and the units of kept
// weights. It is false when they overflow.
func (l *workload) workspace(tokens, partialRows, units int) (n int, ok bool) {
	n, ok = backend.Mul(partialRows, l.vDim+1)
	if !ok || !l.withMass {
		return n, ok
	}
	for _, size := range [][2]int{{tokens, l.qHeads}, {units, keptUnit}} {
		more, fits := backend.Mul(size[0], size[1])
		if !fits || more > math.MaxInt-n {
			return 0, false
		}
		n += more
	}
	return n, true
}

func ceilDiv(n, by int) int { return (n + by - 1) / by }
