package group

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawPart is a part of any kind whose entries have that many tokens.
func drawPart(t *rapid.T, size int) (p Part) {
	p.Kind = rapid.SampledFrom([]Kind{Full, Full, Window, Window, Window, Chunked, State, None}).Draw(t, "kind")
	var divisors []int
	for d := 1; d <= size; d++ {
		if size%d == 0 {
			divisors = append(divisors, d)
		}
	}
	p.Each = rapid.SampledFrom(divisors).Draw(t, "each")
	p.Back = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "back")
	switch p.Kind {
	case State:
		p.Each = 1
	case None:
		return Part{Rule: Rule{Kind: None, Block: 1}}
	}
	p.Block = size / p.Each
	switch p.Kind {
	case Window:
		p.Window = rapid.IntRange(1, 3*size).Draw(t, "window")
		p.Sinks = max(rapid.IntRange(-size, size+1).Draw(t, "sinks"), 0)
	case Chunked:
		p.Chunk = p.Block * rapid.IntRange(1, 2*p.Each).Draw(t, "chunk")
	}
	return p
}

func drawWorld(t *rapid.T) *world {
	size := rapid.SampledFrom([]int{1, 2, 3, 4, 6}).Draw(t, "tokens of an entry")
	cfg := Config{
		Tree: prefix.Config{
			Policy:    rapid.SampledFrom([]prefix.Policy{prefix.LRU, prefix.Adaptive, prefix.Priority}).Draw(t, "policy"),
			MinPrefix: max(rapid.IntRange(-6, 3).Draw(t, "shortest prefix"), 0),
		},
		Every: rapid.IntRange(0, 3).Draw(t, "every"),
		Share: rapid.SampledFrom([]int{0, 0, 10, 30, 100}).Draw(t, "share"),
	}
	for range rapid.IntRange(1, 4).Draw(t, "parts") {
		cfg.Parts = append(cfg.Parts, drawPart(t, size))
	}
	if !slices.ContainsFunc(cfg.Parts, func(p Part) bool { return p.Kind < None }) {
		cfg.Parts[0] = Part{Rule: Rule{Block: size}, Each: 1}
	}
	return newWorld(t, rapid.IntRange(8, 80).Draw(t, "blocks"), rapid.IntRange(4, 40).Draw(t, "entries"), cfg)
}

// drawText is the beginning of one of few texts, or of what a sequence has, and some tokens more.
func (w *world) drawText(t *rapid.T) string {
	text := rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "scope") + strings.Repeat(rapid.SampledFrom([]string{"\x01", "\x01\x02"}).Draw(t, "tokens"), 5*w.size)
	if n := len(w.users); n > 0 && rapid.IntRange(0, 3).Draw(t, "like another") == 0 {
		text = w.users[rapid.IntRange(0, n-1).Draw(t, "sequence")].text
	}
	var lengths []int
	for n := range min(len(text)-1, 5*w.size) + 1 {
		lengths = append(lengths, n)
	}
	return text[:1+rapid.SampledFrom(lengths).Draw(t, "beginning")] + w.drawTokens(t, w.size)
}

func (w *world) drawTokens(t *rapid.T, most int) string {
	return string(rapid.SliceOfN(rapid.SampledFrom([]byte{1, 1, 1, 2}), 0, most).Draw(t, "more"))
}

func (w *world) drawHint(t *rapid.T) (k prefix.RetentionHint) {
	if w.timed() && rapid.IntRange(0, 3).Draw(t, "timed") == 0 {
		k.TTL = time.Duration(rapid.IntRange(1, 20).Draw(t, "ttl")) * time.Second
	}
	k.Priority = rapid.IntRange(0, 2).Draw(t, "priority")
	return k
}

// timed reports whether entries may have a time to live. Then nothing looks them up whose time is over.
func (w *world) timed() bool { return w.size%2 == 0 }

// actions are what happens in a history. pick is called with some sequence.
func (w *world) actions() map[string]func(*rapid.T) {
	pick := func(f func(*rapid.T, *user)) func(*rapid.T) {
		return func(t *rapid.T) {
			if len(w.users) == 0 {
				return
			}
			if u := w.users[rapid.IntRange(0, len(w.users)-1).Draw(t, "sequence")]; u.reads {
				w.give(u)
			} else {
				f(t, u)
			}
		}
	}
	serve := func(t *rapid.T) {
		if u := w.serve(w.drawText(t), rapid.IntRange(1, 3).Draw(t, "borders")); u != nil {
			if u.tokens() > 0 && rapid.IntRange(0, 3).Draw(t, "keep") > 0 {
				w.finish(u, rapid.Bool().Draw(t, "its state"))
			}
		}
	}
	return map[string]func(*rapid.T){
		"match": func(t *rapid.T) { w.match(w.drawText(t)) },
		"open": func(t *rapid.T) {
			w.openCopying(w.drawText(t), rapid.Bool().Draw(t, "whole"), w.drawHint(t))
		},
		"read": func(t *rapid.T) {
			if !slices.ContainsFunc(w.parts, func(p Part) bool { return p.Kind == Full && p.Each > 1 }) {
				w.read(w.drawText(t))
			}
		},
		"grow": pick(func(t *rapid.T, u *user) {
			if !w.grow(u, w.drawTokens(t, 2*w.size), rapid.Bool().Draw(t, "forget")) {
				w.give(u)
			}
		}),
		"publish":    pick(func(t *rapid.T, u *user) { w.publish(u, false, false, w.drawHint(t)) }),
		"checkpoint": pick(func(t *rapid.T, u *user) { w.checkpoint(u) }),
		"finish": pick(func(t *rapid.T, u *user) {
			w.publish(u, true, false, w.drawHint(t))
			w.finish(u, rapid.Bool().Draw(t, "its state"))
		}),
		"give":     pick(func(t *rapid.T, u *user) { w.give(u) }),
		"fork":     pick(func(t *rapid.T, u *user) { w.fork(u) }),
		"truncate": pick(func(t *rapid.T, u *user) { w.truncate(u, rapid.IntRange(0, u.tokens()).Draw(t, "keep")) }),
		"undo": pick(func(t *rapid.T, u *user) {
			w.truncate(u, max(u.tokens()-rapid.IntRange(0, 3).Draw(t, "tokens"), 0))
		}),
		"own": func(t *rapid.T) {
			w.ownPart(rapid.IntRange(0, len(w.parts)-1).Draw(t, "part"), w.drawText(t))
		},
		"pin": func(t *rapid.T) {
			w.pin(w.drawText(t), time.Duration(rapid.IntRange(1, 9).Draw(t, "time"))*time.Second)
		},
		"unpin": func(t *rapid.T) {
			if len(w.leases) > 0 {
				w.unpin(w.leases[0])
			}
		},
		"wait": func(t *rapid.T) {
			d := time.Duration(rapid.IntRange(1, 8).Draw(t, "wait")) * time.Second
			if w.timed() || rapid.Bool().Draw(t, "and notice") {
				w.wait(d)
			} else {
				w.now = w.now.Add(d)
			}
		},
		"claim": func(t *rapid.T) {
			n := rapid.IntRange(0, w.pages.Available()).Draw(t, "claim")
			require.NoError(t, w.pages.Reserve([]block.Reservation{{Claim: &w.claim, Blocks: n}}))
		},
		"cancel": func(t *rapid.T) { w.pages.Cancel(&w.claim) },
		"evict":  func(t *rapid.T) { w.evict(rapid.IntRange(0, 3+w.pages.Cached()/2).Draw(t, "blocks")) },
		"forget": func(t *rapid.T) {
			b := block.Block{ID: uint32(rapid.IntRange(0, w.pages.Total()-1).Draw(t, "block"))}
			for known := range w.at {
				if known.ID == b.ID {
					w.forget(known)
				}
			}
		},
		"serve": serve, "serve more": serve, "serve many": serve, "serve most": serve, "serve all": serve,
	}
}

// Thousands of histories, of several parts of any kind.
func TestHistoriesMatchModel(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		outer := w.t
		actions := map[string]func(*rapid.T){}
		for name, f := range w.actions() {
			actions[name] = func(t *rapid.T) {
				w.t = t
				f(t)
			}
		}
		actions[""] = func(t *rapid.T) {
			w.t = t
			w.check()
		}
		t.Repeat(actions)
		w.t = outer
		w.end()
		for what, n := range w.seen {
			seen[what] += n
		}
	})
	t.Log("what happened: ", seen)
}
