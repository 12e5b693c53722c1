package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"strconv"
)

// Synthesis describes a synthetic trace. Requests come from conversations, a
// number of which are open at a time. Each begins with one of the system prompts,
// grows by the answer and the next question from turn to turn, and is replaced by
// a new one when it ends. Between them come scans: long prompts that are
// never sent again.
type Synthesis struct {
	Seed          uint64
	Requests      int
	SystemPrompts int // popular by Zipf's law: the k-th is used 1/k as often as the first
	Conversations int // open at a time; which one has the next turn is random
	Turns         int // of a conversation, on average
	ScanPercent   int // of the requests
}

// DefaultSynthesis is the trace that ferrumkv replays where none is given.
var DefaultSynthesis = Synthesis{Seed: 1, Requests: 10_000, SystemPrompts: 100, Conversations: 300, Turns: 6, ScanPercent: 10}

// Sizes of a synthetic trace, in blocks of 64 tokens: system prompts of 256 to 4,096
// tokens, turns of up to 512, scans of 2,048 to 8,192.
const (
	syntheticTokens            = 64
	minSystem, maxSystem       = 4, 64
	maxTurn                    = 8
	minScan, maxScan           = 32, 128
	maxContext                 = 2048 // of a prompt: a conversation ends before it has more
	maxRequests, maxPopulation = 1_000_000, 1_000_000
	maxSynthetic               = 1 << 28 // references, a gigabyte of them
	minAnswer, maxAnswer       = 16, 256 // tokens
)

func (s Synthesis) check() error {
	for _, f := range []struct {
		name           string
		have, min, max int
	}{
		{"requests", s.Requests, 1, maxRequests},
		{"system-prompts", s.SystemPrompts, 1, maxPopulation},
		{"conversations", s.Conversations, 1, maxPopulation},
		{"turns", s.Turns, 1, maxPopulation},
		{"scans", s.ScanPercent, 0, 100},
	} {
		if f.have < f.min || f.have > f.max {
			return ErrSetting{f.name, strconv.Itoa(f.have), fmt.Sprintf("accepts %d to %d", f.min, f.max)}
		}
	}
	return nil
}

// Synthetic generates the trace that s describes; the same s gives the same trace
// on every machine. ErrSetting names a size that is out of range.
func Synthetic(ctx context.Context, s Synthesis) (*Trace, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	g := newGenerator(s)
	answers := rand.New(rand.NewPCG(s.Seed, 1)) // apart, so that prompts do not depend on them
	b := newBuilder()
	b.trace.BlockTokens = syntheticTokens
	b.limits.references = maxSynthetic
	for i := range s.Requests {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := b.add(float64(i), g.prompt()); err != nil {
			return nil, ErrSetting{"requests", strconv.Itoa(s.Requests), err.Error()}
		}
		b.lengths(int64(b.trace.requests[i].prompt), minAnswer+answers.Int64N(maxAnswer-minAnswer+1))
	}
	return b.finish("synthetic"), nil
}

// generator draws whole numbers only: what a processor rounds differently would
// give another trace.
type generator struct {
	Synthesis
	rand    *rand.Rand
	weights []uint64 // of the system prompts, cumulative
	systems [][]uint64
	open    [][]uint64 // conversations, each as the blocks of its next prompt
	scan    []uint64
	lastID  uint64
}

func newGenerator(s Synthesis) *generator {
	g := &generator{Synthesis: s, rand: rand.New(rand.NewPCG(s.Seed, 0)), open: make([][]uint64, s.Conversations)}
	sum := uint64(0)
	for k := range s.SystemPrompts {
		sum += 1 << 32 / uint64(k+1)
		g.weights = append(g.weights, sum)
		g.systems = append(g.systems, g.grow(nil, minSystem, maxSystem))
	}
	return g
}

// prompt is the next request. It is valid until the next one.
func (g *generator) prompt() []uint64 {
	if g.rand.IntN(100) < g.ScanPercent {
		g.scan = g.grow(g.scan[:0], minScan, maxScan)
		return g.scan
	}
	c := &g.open[g.rand.IntN(len(g.open))]
	ends := g.rand.IntN(g.Turns) == 0 || len(*c) > maxContext-maxTurn
	if ends || len(*c) == 0 { // the turn is the first one of another
		*c = append((*c)[:0], g.system()...)
	}
	*c = g.grow(*c, 1, maxTurn)
	return *c
}

// system draws a system prompt by its popularity.
func (g *generator) system() []uint64 {
	x := g.rand.Uint64N(g.weights[len(g.weights)-1])
	return g.systems[sort.Search(len(g.weights), func(k int) bool { return x < g.weights[k] })]
}

// grow appends from low to high blocks that no other prompt has.
func (g *generator) grow(blocks []uint64, low, high int) []uint64 {
	for range low + g.rand.IntN(high-low+1) {
		g.lastID++
		blocks = append(blocks, g.lastID)
	}
	return blocks
}
