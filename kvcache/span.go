package kvcache

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Span is tokens that see each other both ways, such as those of an image in Gemma 3: each sees all of the span, besides
// what is before it. They are in one step.
type Span = prefix.Span

// ErrSpan is a step that ends within a span, whose tokens see those that are not in the step.
type ErrSpan struct {
	Begin, End int // the span, as tokens of the sequence
	Step       int // where the step ends
}

func (e ErrSpan) Error() string {
	return fmt.Sprintf("kvcache: tokens %d to %d see each other and have to be in one step, which ends before token %d; "+
		"end it before token %d or after the span", e.Begin, e.End, e.Step, e.Begin)
}

// Is matches the same error and the zero value.
func (e ErrSpan) Is(target error) bool {
	t, ok := target.(ErrSpan)
	return ok && (t == e || t == ErrSpan{})
}

// checkRising checks spans of so many tokens.
func checkRising(spans []Span, tokens int) error {
	end := 0
	for i, s := range spans {
		if s.Begin < end || s.End <= s.Begin || s.End > tokens {
			return argument("span %d is [%d, %d); need spans that rise and do not overlap, of %d tokens",
				i, s.Begin, s.End, tokens)
		}
		end = s.End
	}
	return nil
}

// spansOf brings together the spans that are named of tokens [have, end) and those that the prompt did, in b.spans, and
// reports whether there are some that the prompt did not.
func (b *Batch[B]) spansOf(seq *Sequence[B], named []Span, have, end int) (unknown bool, err error) {
	b.spans = b.spans[:0]
	known := seq.text.Spans
	for len(known) > 0 && known[0].End <= have {
		known = known[1:]
	}
	for {
		var mine, s Span
		if len(named) > 0 {
			mine = Span{Begin: have + named[0].Begin, End: have + named[0].End}
		}
		prompted := len(known) > 0 && known[0].Begin < end && (len(named) == 0 || known[0].Begin <= mine.Begin)
		switch {
		case prompted:
			s, known = known[0], known[1:]
			if len(named) > 0 && mine == (Span{Begin: max(s.Begin, have), End: s.End}) { // the same
				named = named[1:]
			}
		case len(named) > 0:
			s, named, unknown = mine, named[1:], true
		default:
			return unknown, nil
		}
		if s.End > end {
			return false, ErrSpan{Begin: s.Begin, End: s.End, Step: end}
		}
		if n := len(b.spans); n > 0 && s.Begin < b.spans[n-1].End { // one is the prompt's, whose own do not overlap
			of := b.spans[n-1]
			if prompted {
				s, of = of, s
			}
			return false, argument("the span [%d, %d), as tokens of the sequence, overlaps [%d, %d) of the prompt; "+
				"name that as it is there, or not at all", s.Begin, s.End, of.Begin, of.End)
		}
		b.spans = append(b.spans, s)
	}
}

// checkSpans reports why the pool cannot have the spans of an addition.
func (b *Batch[B]) checkSpans() error {
	p := b.pool
	if err := b.checkViews("spans"); err != nil {
		return err
	}
	if p.cfg.Model.NonCausal {
		return unsupported("spans of tokens that see each other are for causal models; in one with Model.NonCausal all tokens do")
	}
	for _, chunk := range p.chunks {
		for _, s := range b.spans {
			if s.Begin/chunk != (s.End-1)/chunk {
				return unsupported("the span of tokens %d to %d lies over a border of the chunks of %d tokens in which "+
					"layers attend; "+
					"they would not see each other", s.Begin, s.End, chunk)
			}
		}
	}
	return nil
}

// seeSpans gives the rows that were added last, behind so many tokens, the views that b.spans says.
func (b *Batch[B]) seeSpans(have, n int) {
	b.step.See()
	spans := b.spans
	for at := have; at < have+n; at++ {
		for len(spans) > 0 && spans[0].End <= at {
			spans = spans[1:]
		}
		end := at + 1
		if len(spans) > 0 && spans[0].Begin <= at {
			end = spans[0].End
		}
		b.step.View(at, end)
	}
}

// checkViews reports why the step cannot have rows that do not see just what is before them.
func (b *Batch[B]) checkViews(what string) error {
	switch {
	case !b.pool.caps.Views:
		return unsupported("%s: the device has no views of queries", what)
	case b.step.Size.Seqs > 0:
		return unsupported("%s: steps of one shape have new tokens, each of which sees what is before it; use another "+
			"batch", what)
	}
	return nil
}
