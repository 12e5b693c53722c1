// Package planner decides whether blocks below the device are loaded or computed anew.
//
// It knows what loads took, by tier, and how fast the runner computes prompts, and nothing of blocks, tiers or clocks: times are
// given to it. Computing from the front while loading from the back until they meet is from Cake (Jin et al., "Compute or
// Load KV Cache? Why Not Both?", 2024).
//
// One rule holds whatever the estimates say: a load is waited for no longer than what it has brought so far would have taken to
// compute, and a tenth of the whole. So a prompt takes at most 1.1 times as long as without tiers, also when a tier that was fast
// stands still, as far as the measured speed of computing is right.
//
// It follows that a tier whose first block takes longer than a tenth of computing all of them is not waited for, however much
// faster it would be in the end: what is waited for before anything is there is lost when the tier stands still, and
// nobody knows before. Where the runner can compute while blocks are loaded, such a tier is used all the same, from the back: nobody waits for it.
package planner

import (
	"fmt"
	"math"
	"sync"
	"time"
)

const (
	// slack is the part of the time to compute all of a prompt that waiting may cost.
	slack = 0.1
	// margin is by how much loading has to be faster than computing to begin with it again (hysteresis).
	margin = 0.1
	// probeEvery is how often a tier that is not used is tried, and probeFirst after what time when it was tried once: then with
	// another number of blocks, so that latency and bandwidth can be told apart.
	probeEvery = time.Minute
	probeFirst = time.Second
	// mostBlocks limits the blocks that tiers have of a prompt: costs takes memory for each.
	mostBlocks = 1 << 20
)

// Planner decides for the prompts of one pool. It is safe for concurrent use.
type Planner struct {
	mu      sync.Mutex
	n       int            // tiers
	tiers   map[int]*known // those observed so far
	compute prefill
	stats   Stats
}

// known is a tier as the planner sees it.
type known struct {
	estimate
	loading bool      // the last decision was to load from it
	probed  time.Time // the last probe began
	probes  int
}

// Choice is what to do with blocks that tiers have.
type Choice int

// Choices.
const (
	Compute Choice = iota // all of them
	Load                  // all of them
	Prefix                // load the first ones, then compute the others
	Meet                  // compute from the first one, and load from the last one, until they meet
	choices
)

func (c Choice) String() string {
	return [...]string{"compute", "load", "prefix", "meet", "unknown"}[min(uint(c), uint(choices))]
}

// Piece is blocks, one after another, that one tier has.
type Piece struct{ Tier, Blocks int }

// Prompt is the part of a prompt that tiers have.
type Prompt struct {
	Pieces      []Piece
	BlockTokens int
	BlockBytes  int64
	Context     int     // tokens before the first piece, which are there
	Queued      []int64 // of each tier: bytes that it has to deliver before; nil: none
	Both        bool    // the runner can compute while blocks are loaded
	Loaded      int     // blocks that are there by now, from the front
	Waited      time.Duration
	Asked       time.Duration // waited before the first decision, for tiers to say what they have
	Whole       bool          // a part of the blocks is of no use
	Trust       bool          // all is loaded as long as nobody has told how fast the runner computes: who has tiers wants them used
	Now         time.Time
}

// Decision is what to do next.
type Decision struct {
	Choice Choice
	// Blocks is how many blocks to load now: from Prompt.Loaded on, or with Meet the last ones, in reverse order. When they are
	// there, ask again. 0: compute.
	Blocks int
	// Wait is how long to wait for them: then the load is cancelled, and what it did not bring is computed; 0: as long as it takes.
	// With Meet, computing goes on meanwhile.
	Wait time.Duration
	// Probe is blocks from Prompt.Loaded on to load beside, which nobody waits for, to know how fast their tier is now.
	Probe int
	// Computing and Loading are what each was expected to take, for all blocks that are not there.
	Computing, Loading time.Duration
	Why                string
}

// Stats counts decisions about prompts, each once, and says what became of them.
type Stats struct {
	Decisions [choices]int64
	Probes    int64
	GivenUp   int64         // loads that took longer than they were waited for
	Regret    time.Duration // by which prompts took longer than computing all of them
	Saved     time.Duration // by which others took less
	Last      Decision      // the last one, with its reasons
}

// New returns a planner for so many tiers. It loads nothing before it knows how fast the runner computes, but for Prompt.Trust, and the
// tiers load, which it finds out by probes.
func New(tiers int) *Planner { return &Planner{n: tiers, tiers: map[int]*known{}} }

// tier is what is known of a tier, or nil if there is none of this number.
func (p *Planner) tier(i int) *known {
	if i < 0 || i >= p.n {
		return nil
	}
	if p.tiers[i] == nil {
		p.tiers[i] = &known{}
	}
	return p.tiers[i]
}

// Decide says what to do next for a prompt.
func (p *Planner) Decide(q Prompt) Decision {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.costs(&q)
	if !ok {
		return p.count(&q, Decision{Why: "nothing to load"})
	}
	d := Decision{Computing: duration(c.compute[c.n] - c.compute[q.Loaded]), Loading: duration(c.load(q.Loaded, c.n))}
	first := q.Pieces[c.piece[q.Loaded]].Tier
	switch {
	case c.compute[c.n] == 0 && q.Trust:
		d.Choice, d.Blocks, d.Why = Load, c.n-q.Loaded, "how fast the runner computes is not known, so all is loaded"
	case c.compute[c.n] == 0:
		d.Why = "how fast the runner computes is not known"
	case c.unknown:
		d.Why = fmt.Sprintf("how fast tier %d loads is not known", first)
	default:
		p.choose(&q, c, &d, first)
	}
	k := p.tier(first)
	k.loading = d.Choice != Compute
	if d.Choice == Compute && q.Loaded == 0 && k.due(q.Now) {
		d.Probe = min([...]int{8, 2}[k.probes%2], c.n)
		k.probed, k.probes = q.Now, k.probes+1
	}
	return p.count(&q, d)
}

// due tells whether a tier is to be tried: nobody has loaded from it for a while, or all that is known is of one load.
func (k *known) due(now time.Time) bool {
	every := probeEvery
	if k.known() && k.single() {
		every = probeFirst
	}
	return k.probed.IsZero() || now.Sub(k.probed) >= every && now.Sub(k.last) >= every
}

// count counts the first decision about a prompt.
func (p *Planner) count(q *Prompt, d Decision) Decision {
	p.stats.Last = d
	if q.Loaded == 0 && q.Waited == 0 {
		p.stats.Decisions[d.Choice]++
		if d.Probe > 0 {
			p.stats.Probes++
		}
	}
	return d
}

// duration is some seconds, limited to what a Duration holds.
func duration(seconds float64) time.Duration {
	const most = 1 << 62 // nanoseconds: 146 years
	return time.Duration(math.Round(max(-most, min(most, seconds*float64(time.Second)))))
}
