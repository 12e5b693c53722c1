package load

import (
	"math"
	"math/rand/v2"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
)

// Dialect is how a server is given prompts, and what its tokenizer makes of words.
type Dialect struct {
	Chat       bool    // messages of a conversation instead of the beginning of a text
	Vocabulary int     // above 0: prompts are ids of tokens below it
	WordTokens float64 // tokens of a word, on average
	Overhead   float64 // tokens of a prompt that are not of its words, such as those of a chat template
}

// pieceUnits is the least that a piece has. There are 4,096 different ones or more, so that few are equal that should not be.
func (d Dialect) pieceUnits() float64 {
	units := 1
	if d.Vocabulary > 0 {
		for n := d.Vocabulary; n < 1<<wordBits; n *= d.Vocabulary {
			units++
		}
	}
	return float64(units)
}

// Streams of random numbers, of one seed each. Blocks have the rest: above what numbers blocks and requests have.
const (
	arrivalStream   = 1 << 40
	tailStream      = 1 << 41 // plus the request's number
	calibrateStream = 1 << 42
)

// mostTokens of a prompt are more than models take; what a trace says beyond it must not take all memory.
const mostTokens = 1 << 22

// prompts makes the prompts of a trace of words or tokens. A trace's block, or several where a block is too short for that, is a
// piece of a prompt, and depends on nothing but the block's number, which says all before it. Prompts have the same pieces where the
// trace has the same blocks.
type prompts struct {
	trace   *replay.Trace
	dialect Dialect
	seed    uint64
	scale   float64
	most    int     // tokens of a prompt
	group   int     // blocks of a piece
	size    float64 // units of a piece
}

func newPrompts(t *replay.Trace, w Workload, d Dialect) prompts {
	if d.Vocabulary > 0 {
		d.WordTokens, d.Overhead = 1, 0
	}
	p := prompts{trace: t, dialect: d, seed: w.Seed, scale: w.Scale, most: mostTokens}
	if w.MaxPrompt > 0 {
		p.most = min(w.MaxPrompt, mostTokens)
	}
	block := float64(t.BlockTokens) * w.Scale / d.WordTokens
	p.group = max(int(math.Ceil(d.pieceUnits()/block)), 1)
	p.size = float64(p.group) * block
	return p
}

// units is how many words or tokens the prompt of request i has.
func (p prompts) units(i int) int {
	tokens := min(math.Ceil(float64(p.trace.Tokens(i))*p.scale), float64(p.most))
	return max(int((tokens-p.dialect.Overhead)/p.dialect.WordTokens), 1)
}

// end is where piece k ends. Sizes that are no whole numbers do not add up to another length.
func (p prompts) end(k int) int { return int(math.Round(float64(k+1) * p.size)) }

// pieces are the blocks that say what the pieces of a path are: the last of each.
func (p prompts) pieces(path []uint32) (out []uint32) {
	for from := 0; from < len(path); from += p.group {
		out = append(out, path[min(from+p.group, len(path))-1])
	}
	return out
}

// shared is how many units of a prompt are in whole pieces that are seen, from its beginning on. All that it has are seen then.
func (p prompts) shared(i, units int, seen map[uint32]bool) (n int) {
	known := true
	for k, block := range p.pieces(p.trace.Path(i)) {
		if p.end(k) > units {
			break
		}
		if known = known && seen[block]; known {
			n = p.end(k)
		}
		seen[block] = true
	}
	return n
}

// fill calls piece for each part of a prompt: which stream of random numbers it is made of, and how long it is.
func (p prompts) fill(i, units int, piece func(stream uint64, n int)) {
	at := 0
	for k, block := range p.pieces(p.trace.Path(i)) {
		if at == units {
			return
		}
		n := min(p.end(k), units) - at
		piece(uint64(block), n)
		at += n
	}
	if at < units { // what follows the full blocks is no one else's
		piece(tailStream+uint64(i), units-at)
	}
}

// text is the prompt of request i as words.
func (p prompts) text(i, units int) string {
	var out strings.Builder
	p.fill(i, units, func(stream uint64, n int) { writeWords(&out, rand.NewPCG(p.seed, stream), n) })
	return strings.TrimPrefix(out.String(), " ")
}

// ids is the prompt of request i as tokens.
func (p prompts) ids(i, units int) []int {
	out := make([]int, 0, units)
	p.fill(i, units, func(stream uint64, n int) {
		random := rand.New(rand.NewPCG(p.seed, stream))
		for range n {
			out = append(out, random.IntN(p.dialect.Vocabulary))
		}
	})
	return out
}
