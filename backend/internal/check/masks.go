package check

import "github.com/ferrumkv/ferrumkv/backend"

// sight is which keys queries see, in a call or in its shape.
type sight struct {
	nonCausal            bool
	window, sinks, chunk int
	part                 backend.Part
	residual             int
	views                bool
	treeWords            int // 0: no tree
}

// sightOf is which keys the queries of a call see.
func sightOf[B backend.Buffer](r *backend.Ragged[B], m *backend.Mask[B]) sight {
	s := sight{nonCausal: m.NonCausal, window: m.Window, sinks: m.SinkTokens, chunk: m.Chunk, part: m.Part, residual: m.Residual,
		views: r.Views.Set}
	if r.Tree.Set {
		s.treeWords = r.TreeWords
	}
	return s
}

// visibility checks which keys a query sees.
func (c *checker) visibility(caps *backend.Caps, s *sight) {
	c.least("window", s.window, 0)
	c.least("sink tokens", s.sinks, 0)
	if s.part != backend.AllKeys || s.residual != 0 {
		c.part(s.nonCausal, s.part, s.residual)
	}
	if s.nonCausal || s.chunk != 0 || s.views || s.treeWords != 0 {
		c.masks(caps, s)
	}
}

// masks checks what not every device has.
func (c *checker) masks(caps *backend.Caps, s *sight) {
	c.least("chunk", s.chunk, 0)
	switch {
	case s.nonCausal && s.views:
		c.shape("views: need a causal mask, in which ends say what each query sees")
	case s.nonCausal && s.treeWords > 0:
		c.shape("tree: needs a causal mask")
	case s.nonCausal && s.window == 0 && s.sinks > 0:
		c.shape("sink tokens: have %d without a causal mask or a window, need 0", s.sinks)
	case s.chunk > 0 && (s.window > 0 || s.sinks > 0):
		c.unsupported("a chunk together with a window or sink tokens")
	case s.chunk > 0 && !caps.Chunk:
		c.unsupported("a mask of chunks, on this device (Caps.Chunk)")
	case s.nonCausal && s.window > 0 && !caps.Views:
		c.unsupported("a window without a causal mask, on this device (Caps.Views)")
	case s.views && !caps.Views:
		c.unsupported("positions and ends of queries (Ragged.Views), on this device (Caps.Views)")
	case s.treeWords > 0 && caps.TreeWords == 0:
		c.unsupported("drafts of trees (Ragged.Tree), on this device (Caps.TreeWords)")
	case s.treeWords > caps.TreeWords:
		c.unsupported("a tree of %d words a row: the device takes %d, for %d drafts of a sequence", s.treeWords, caps.TreeWords, 32*caps.TreeWords)
	}
}

// part checks which part of its keys a query sees, where it is not all of them.
func (c *checker) part(nonCausal bool, part backend.Part, recent int) {
	switch {
	case part > backend.ResidualKeys:
		c.shape("part: have %d, need all, older or recent keys", part)
	case part == backend.AllKeys:
		c.shape("recent tokens: have %d with all keys, need 0", recent)
	case nonCausal:
		c.shape("part: older or recent keys without a causal mask")
	}
	c.least("recent tokens", recent, 1)
}

// views checks what a plan is told of positions and ends.
func views(c *checker, s *backend.AttendShape, tokens int) {
	if s.Fixed {
		c.unsupported("a plan of fixed size for views, which say where each query is in this step")
	}
	if need := c.product("views", tokens, 2); len(s.Views) != need {
		c.shape("views: %d numbers, need %d for %d tokens", len(s.Views), need, tokens)
	}
	if c.err != nil {
		return
	}
	of := s.Views
	for seq, n := range s.QueryLens {
		for i := range n {
			if position, end := of[0], of[1]; position > backend.MaxPosition || end > s.ContextLens[seq] {
				c.shape("views: query %d of sequence %d is at position %d and ends at key %d, need at most %d and its %d tokens",
					i, seq, position, end, backend.MaxPosition, s.ContextLens[seq])
				return
			}
			of = of[2:]
		}
	}
}
