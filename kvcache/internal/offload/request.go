package offload

import (
	"context"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Request is the beginning of a prompt that the device and tiers have together. The caller completes it before Begin.
type Request struct {
	Path   prefix.Path   // where it begins: Extra is that of its entries
	Tokens []uint32      // of its entries, full ones
	Both   bool          // the sequence computes meanwhile, if that is best: where entries are blocks
	Asked  time.Duration // how long tiers took to say what they have

	keys  []tier.Key // of the entries
	gain  int        // tokens that the device does not have, or cannot go on after
	units []unit     // what tiers have of it
	bytes int64      // of those
	from  []source   // by entry and place
	epoch int        // of the load
}

// unit is a payload to load: of an entry what is at a place, from a tier.
type unit struct{ entry, at, tier int }

// Find asks tiers for what of a query they have beyond what was found on the device, and returns that and how many tokens it is. The
// guard is not held.
func (o *Offload[B]) Find(ctx context.Context, root prefix.Root, q prefix.Query, found prefix.Match) (w Request, tokens int) {
	n := len(q.Tokens) / o.shape.tokens
	if quota := o.blocks.Tree().Limits(root).Quota; quota > 0 { // what is above it would come for nothing
		n = min(n, quota)
	}
	if n <= found.Blocks || found.Fidelity != prefix.Exact { // behind what is not exact comes nothing that is
		return w, 0
	}
	q.Tokens, q.Extra = q.Tokens[:n*o.shape.tokens], q.Extra[:min(n, len(q.Extra))]
	w = Request{Path: prefix.Path{Root: root, Extra: q.Extra}, Tokens: q.Tokens, keys: root.Keys(nil, o.shape.tokens, q)}
	o.find(ctx, &w, q, found)
	return w, w.gain
}

// cut shortens what is wanted to some entries.
func (w *Request) cut(entries, gain, size int) {
	w.keys, w.Tokens, w.Path.Extra = w.keys[:entries], w.Tokens[:entries*size], w.Path.Extra[:min(entries, len(w.Path.Extra))]
	w.gain = gain
}

// ask says where the first of some keys are, and how many that is.
func (o *Offload[B]) ask(ctx context.Context, keys []tier.Key) (places []tier.Place, n int) {
	if len(keys) == 0 {
		return nil, 0
	}
	places, _ = o.mover.Has(ctx, keys) // a tier that fails has nothing, and counts that
	for _, p := range places {
		n += p.Blocks
	}
	return places, n
}
