package prefix

// Stats are the numbers of a tree, or of one salt in it.
type Stats struct {
	Blocks int // in the tree: Cached + Held
	Cached int // without an owner: can be evicted
	Held   int // in use by sequences or leases
	Away   int // entries whose blocks are elsewhere, besides Blocks
	Nodes  int // runs of blocks without a branch; 0 for a salt
	Roots  int // scopes that have blocks; 0 for a salt
	Pinned int // by leases, counted for each; 0 for a salt

	Lookups int // by Take
	Hits    int // of them, everything that was asked for was found
	Partial int // something was
	// Misses are the lookups that found nothing, by cause. Seen from a salt, what
	// others have is NeverSeen.
	Misses [numCauses]int

	// Ends are the partial ones, by why they found no more.
	Ends [numCauses]int

	TokensAsked int // of all lookups
	TokensFound int // of them, that did not have to be computed
	Evicted     int // blocks
	Demoted     int // of them, whose entries stayed, away
	Promoted    int // entries whose blocks were away and became resident, by Promote or Insert
}

// counters are what Stats count.
type counters struct {
	lookups, hits, partial int
	misses, ends           [numCauses]int
	asked, found, evicted  int
	demoted, promoted      int
}

func (c *counters) count(q Query, m Match, cause Cause) {
	c.lookups++
	c.asked += len(q.Tokens)
	c.found += m.Tokens
	switch {
	case cause == Complete:
		c.hits++
	case m.Tokens > 0:
		c.partial++
		c.ends[cause]++
	default:
		c.misses[cause]++
	}
}

// count notes a lookup for the tree and for its salt, which learns nothing of others.
// A salt that has no blocks yet counts from its first one on.
func (t *Tree) count(r Root, q Query, m Match) {
	t.stats.count(q, m, m.cause)
	if tn := t.tenants[r.tenant]; tn != nil {
		tn.stats.count(q, m, m.cause.Told())
	}
}

func (c counters) fill(s Stats) Stats {
	s.Lookups, s.Hits, s.Partial, s.Misses, s.Ends = c.lookups, c.hits, c.partial, c.misses, c.ends
	s.TokensAsked, s.TokensFound, s.Evicted = c.asked, c.found, c.evicted
	s.Demoted, s.Promoted = c.demoted, c.promoted
	return s
}

// Stats returns the numbers of the whole tree.
func (t *Tree) Stats() Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.stats.fill(Stats{
		Blocks: t.blocks, Cached: t.queued, Held: t.blocks - t.queued, Away: t.away.size, Nodes: t.nodes, Roots: len(t.roots), Pinned: t.pinned,
	})
}

// SaltStats returns the numbers of a scope's salt: nothing in them depends on what
// others do, but what was evicted. They are kept while it has blocks or limits.
func (t *Tree) SaltStats(r Root) Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	tn := t.tenants[r.tenant]
	if tn == nil {
		return Stats{}
	}
	return tn.stats.fill(Stats{Blocks: tn.blocks, Cached: tn.queued, Held: tn.blocks - tn.queued, Away: tn.away})
}
