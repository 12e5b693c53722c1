package snap

import (
	"sort"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// line is the references of a sequence to chunks of a strip, by their first tokens.
type line []placed

type placed struct {
	first int
	snapshot.Ref
}

func newLine(runs []snapshot.Run) (l line) {
	for _, r := range runs {
		at := r.First
		for _, ref := range r.Refs {
			l = append(l, placed{at, ref})
			at += ref.Tokens
		}
	}
	return l
}

// after is the state after so many tokens, of a line of states; false: it does not have it.
func (l line) after(tokens int) (placed, bool) {
	i := sort.Search(len(l), func(i int) bool { return l[i].Tokens >= tokens })
	if i == len(l) || l[i].Tokens != tokens {
		return placed{}, false
	}
	return l[i], true
}

// extent is the last tokens of the line between which is no hole.
func (l line) extent() (start, end int) {
	for i, p := range l {
		if i == 0 || p.first != end {
			start = p.first
		}
		end = p.first + p.Tokens
	}
	return start, end
}

// take appends what of the line are tokens from one on; false: some are missing.
func (l line) take(dst []src, from, tokens int) ([]src, bool) {
	i := sort.Search(len(l), func(i int) bool { return l[i].first+l[i].Tokens > from })
	for at := from; at < from+tokens; i++ {
		if i == len(l) || l[i].first > at {
			return dst, false
		}
		n := min(l[i].first+l[i].Tokens, from+tokens) - at
		dst = append(dst, src{l[i].Chunk, at - l[i].first, at - from, n})
		at += n
	}
	return dst, true
}
