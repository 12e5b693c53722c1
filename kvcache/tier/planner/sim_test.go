package planner

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
)

func TestMain(m *testing.M) {
	testsize.Histories(300)
	os.Exit(m.Run())
}

const (
	blockTokens = 16
	blockBytes  = 2 << 20
)

// store is a tier as it is.
type store struct {
	latency time.Duration
	rate    float64 // bytes a second; 0: it stands still
}

// sim is a runner and its tiers, in simulated time.
type sim struct {
	p        *Planner
	now      time.Time
	stores   []store
	perToken func(context int) float64 // seconds to compute a token
	both     bool
	last     []Decision // of the last prompt
}

func newSim(stores ...store) *sim {
	s := &sim{p: New(len(stores)), now: time.Unix(1e9, 0), stores: stores}
	s.perToken = func(int) float64 { return 1e-4 } // 10,000 tokens a second: 312 blocks of 1.6 ms
	return s
}

// compute is the seconds that blocks from to to−1 take.
func (s *sim) compute(context, from, to int) (sum float64) {
	for i := from; i < to; i++ {
		sum += blockTokens * s.perToken(context+i*blockTokens)
	}
	return sum
}

// arrivals is when each of the blocks is there, in seconds from the beginning of the load; tiers[i] has block i.
func (s *sim) arrivals(tiers []int) (out []float64) {
	at := 0.0
	for i, t := range tiers {
		if i == 0 || tiers[i-1] != t {
			at += s.stores[t].latency.Seconds()
		}
		at += blockBytes / s.stores[t].rate // +Inf when it stands still
		out = append(out, at)
	}
	return out
}

// observe tells of a load of which the blocks that arrived until end are there. Like the mover, it says nothing of what brought nothing.
func (s *sim) observe(tiers []int, at []float64, end float64) (n int) {
	begin := 0.0
	for i := 0; i < len(tiers); {
		j := i
		for j < len(tiers) && tiers[j] == tiers[i] && at[j] <= end {
			j++
		}
		if j == i {
			s.p.Late(tiers[i], blockBytes, seconds(end-begin), s.now)
			return n
		}
		s.p.Observe(tiers[i], int64(j-i)*blockBytes, seconds(at[j-1]-begin), s.now)
		n = j
		if j < len(tiers) && tiers[j] == tiers[i] {
			s.p.Late(tiers[i], int64(j-i+1)*blockBytes, seconds(end-begin), s.now)
			return n
		}
		begin, i = at[j-1], j
	}
	return n
}

func seconds(s float64) time.Duration {
	return time.Duration(min(s*float64(time.Second), math.MaxInt64/4))
}

// prompt does what the planner says, and returns what it took and what computing takes, in seconds.
func (s *sim) prompt(context int, pieces ...Piece) (took, whole float64) {
	var tiers []int
	for _, p := range pieces {
		for range p.Blocks {
			tiers = append(tiers, p.Tier)
		}
	}
	n, loaded := len(tiers), 0
	whole = s.compute(context, 0, n)
	s.last = nil
	begin := s.now
	for {
		s.now = begin.Add(seconds(took))
		d := s.p.Decide(Prompt{Pieces: pieces, BlockTokens: blockTokens, BlockBytes: blockBytes, Context: context,
			Both: s.both, Loaded: loaded, Waited: seconds(took), Now: s.now})
		s.last = append(s.last, d)
		if d.Probe > 0 {
			at := s.arrivals(tiers[:d.Probe])
			s.observe(tiers[:d.Probe], at, whole) // beside, at most until the prompt is computed
		}
		switch d.Choice {
		case Load, Prefix:
			at := s.arrivals(tiers[loaded : loaded+d.Blocks])
			end := min(at[d.Blocks-1], d.Wait.Seconds())
			loaded += s.observe(tiers[loaded:loaded+d.Blocks], at, end)
			took += end
			if loaded < n {
				continue
			}
		case Meet:
			var back []int
			for i := n - 1; i >= n-d.Blocks; i-- {
				back = append(back, tiers[i])
			}
			at := s.arrivals(back)
			end := s.compute(context, loaded, n)
			for m := loaded; m < n; m++ { // computed up to m, the others loaded
				if n-m <= len(at) {
					end = min(end, max(s.compute(context, loaded, m), at[n-m-1]))
				}
			}
			s.observe(back, at, end)
			took += end
		default:
			part := s.compute(context, loaded, n)
			for i := loaded; i < n; i++ {
				s.p.Prefilled(context+i*blockTokens, blockTokens, seconds(s.compute(context, i, i+1)))
			}
			took += part
		}
		s.now = begin.Add(seconds(took))
		s.p.Ended(seconds(took), seconds(whole))
		s.now = s.now.Add(time.Second)
		return took, whole
	}
}
