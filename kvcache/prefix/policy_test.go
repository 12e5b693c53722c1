package prefix

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// order evicts everything, and names the prompts of one block in the order in which
// they went.
func (r *rig) order(prompts ...uint32) string {
	r.t.Helper()
	var out []string
	there := map[uint32]bool{}
	for _, p := range prompts {
		there[p] = true
	}
	for r.alloc.Cached() > 0 {
		require.True(r.t, r.tree.Evict(1, r.root))
		r.check()
		for _, p := range prompts {
			if _, m := r.match(r.root, []uint32{p}); there[p] && m.Tokens == 0 {
				there[p] = false
				out = append(out, string(rune('a'+p)))
			}
		}
	}
	return strings.Join(out, "")
}

// use takes a prompt and releases it.
func (r *rig) use(prompts ...uint32) {
	r.t.Helper()
	for _, p := range prompts {
		blocks, _ := r.take(r.root, []uint32{p})
		r.release(blocks)
	}
}

// B13: the order of each policy; of equals the one that was released first.
func TestB13VictimOrder(t *testing.T) {
	const a, b, c, d, e = 0, 1, 2, 3, 4
	fill := func(p Policy) *rig {
		r := newRig(t, 10, Config{BlockSize: 1, Policy: p})
		for i, prompt := range []uint32{a, b, c, d, e} {
			keep := RetentionHint{Priority: []int{50, 0, 100, 50, 0}[i]}
			r.release(r.hold(Path{Root: r.root, RetentionHint: keep}, []uint32{prompt}))
		}
		return r
	}
	for _, x := range []struct {
		policy Policy
		uses   []uint32
		want   string
	}{
		{LRU, nil, "abcde"},
		{LRU, []uint32{b, a}, "cdeba"},
		{LFU, nil, "abcde"},
		{LFU, []uint32{a, a, b, c, c}, "debac"},
		{LFU, []uint32{c, a, b}, "decab"},
		{Segmented, nil, "abcde"},
		{Segmented, []uint32{c, a}, "bdeca"},            // two of ten can be protected
		{Segmented, []uint32{c, a, d}, "becad"},         // the third one displaces the first
		{Segmented, []uint32{c, a, d, c}, "beadc"},      // which may come back
		{Priority, nil, "beadc"},                        // 0: b e, 50: a d, 100: c
		{Priority, []uint32{a, b}, "ebdac"},             // and of equals by age
		{Priority, []uint32{b, b, b, e, d, a}, "bedac"}, // not by use
	} {
		r := fill(x.policy)
		r.use(x.uses...)
		require.Equal(t, x.want, r.order(a, b, c, d, e), "%v after %v", x.policy, x.uses)
	}
	// What has lost its protection goes before what was stored after that.
	r := fill(Segmented)
	r.use(c, a, d)
	r.cache(r.root, []uint32{5})
	require.Equal(t, "becfad", r.order(a, b, c, d, e, 5))
}

// Whatever the policy prefers, a path goes from its end: what is asked for a block
// counts for all that leads to it, also when it is asked for after a path that was
// stored before.
func TestPathsGoFromTheirEnd(t *testing.T) {
	for p := Adaptive; p <= lastPolicy; p++ {
		r := newRig(t, 10, Config{BlockSize: 1, Policy: p})
		blocks := r.hold(Path{Root: r.root}, []uint32{1, 2})
		fresh := r.fresh(r.root, 1)
		r.insert(Path{Root: r.root, Parent: blocks[1], RetentionHint: RetentionHint{Priority: 90, TTL: time.Hour}}, []uint32{3}, fresh)
		blocks = append(blocks, fresh...)
		r.release(blocks)
		r.cache(r.root, []uint32{7})
		if p == Priority {
			require.True(t, r.tree.Evict(1, r.root))
			_, m := r.match(r.root, []uint32{7})
			require.Zero(t, m.Tokens, "the whole path has the priority of its end")
		} else {
			require.Equal(t, 1, r.alloc.Cached()-3)
			r.take(r.root, []uint32{7})
		}
		for i := 2; i >= 0; i-- {
			require.True(t, r.tree.Evict(1, r.root))
			_, m := r.match(r.root, []uint32{1, 2, 3})
			require.Equal(t, i, m.Tokens, p)
			r.check()
		}
	}
}

// Prompts that come once do not displace what is used again and again, less often
// than the cache is filled again. Adaptive has to see some of it first.
func TestScans(t *testing.T) {
	for policy, want := range map[Policy]bool{LRU: false, Segmented: true, Adaptive: true} {
		r := newRig(t, 100, Config{BlockSize: 1, Policy: policy})
		r.cache(r.root, span(0, 10))
		for i := range uint32(3000) {
			if every := uint32(20 + i/500*30); i%every == 0 {
				r.cache(r.root, span(0, 10))
			}
			r.cache(r.root, []uint32{1000 + i})
		}
		_, m := r.match(r.root, span(0, 10))
		require.Equal(t, want, m.Tokens == 10, policy)
	}
}

func TestPolicyNames(t *testing.T) {
	for p := Adaptive; p <= lastPolicy; p++ {
		got, err := ParsePolicy(strings.ToUpper(p.String()))
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	_, err := ParsePolicy("fifo")
	require.ErrorIs(t, err, ErrArgument{Op: "policy", Why: `"fifo": accepts ` + PolicyNames()})
	require.NotEqual(t, ErrArgument{Op: "policy"}, err)
	require.Equal(t, "unset", Policy(0).String())
}
