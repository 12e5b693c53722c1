package prefix

// Stats are the numbers of a tree, or of one salt in it.
type Stats struct {
	Blocks    int // in the tree: Cached + Held
	Cached    int // without an owner: can be evicted
	Held      int // in use by sequences or leases
	Offloaded int // offloaded entries, not part of Blocks
	Nodes     int // nodes of the radix tree; 0 for a salt
	Roots     int // scopes that have blocks; 0 for a salt
	Pinned    int // owned by leases, a block once for each lease; 0 for a salt

	Lookups int // calls of Take
	Hits    int // lookups that found everything
	Partial int // lookups that found a part
	// Misses are the lookups that found nothing, by reason. For a salt, blocks of other salts count
	// as NeverSeen.
	Misses [numMissReasons]int

	// PartialReasons are the partial lookups, by the reason that they found no more.
	PartialReasons [numMissReasons]int

	TokensQueried int // tokens of all lookups
	TokensHit     int // tokens that were found
	Evicted       int // blocks, demoted ones included
	Demoted       int // evicted blocks whose entries stay, offloaded
	Promoted      int // offloaded entries that became resident, by Promote or Insert
}

// counters are what Stats count.
type counters struct {
	lookups, hits, partial int
	misses, ends           [numMissReasons]int
	asked, found, evicted  int
	demoted, promoted      int
}

func (c *counters) count(q Query, m Match, cause MissReason) {
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
	t.stats.count(q, m, m.reason)
	if tn := t.tenants[r.tenant]; tn != nil {
		tn.stats.count(q, m, m.reason.Redacted())
	}
}

func (c counters) fill(s Stats) Stats {
	s.Lookups, s.Hits, s.Partial, s.Misses, s.PartialReasons = c.lookups, c.hits, c.partial, c.misses, c.ends
	s.TokensQueried, s.TokensHit, s.Evicted = c.asked, c.found, c.evicted
	s.Demoted, s.Promoted = c.demoted, c.promoted
	return s
}

// Stats returns the numbers of the whole tree.
func (t *Tree) Stats() Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.stats.fill(Stats{
		Blocks: t.blocks, Cached: t.queued, Held: t.blocks - t.queued, Offloaded: t.offloaded.size(), Nodes: t.nodes, Roots: len(t.roots), Pinned: t.pinned,
	})
}

// SaltStats returns the numbers of a scope's salt. They do not depend on what other salts do,
// except for evictions, and are kept while the salt has blocks or limits.
func (t *Tree) SaltStats(r Root) Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	tn := t.tenants[r.tenant]
	if tn == nil {
		return Stats{}
	}
	return tn.stats.fill(Stats{Blocks: tn.blocks, Cached: tn.queued, Held: tn.blocks - tn.queued, Offloaded: tn.offloaded})
}
