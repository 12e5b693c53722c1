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

func (s *Stats) count(q Query, m Match, cause MissReason) {
	s.Lookups++
	s.TokensQueried += len(q.Tokens)
	s.TokensHit += m.Tokens
	switch {
	case cause == Complete:
		s.Hits++
	case m.Tokens > 0:
		s.Partial++
		s.PartialReasons[cause]++
	default:
		s.Misses[cause]++
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

// Stats returns the numbers of the whole tree.
func (t *Tree) Stats() Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.stats
	s.Held, s.Roots = s.Blocks-s.Cached, len(t.roots)
	return s
}

// SaltStats returns the numbers of a scope's salt. They do not depend on what other salts do,
// except for evictions, and are kept while the salt has blocks or limits.
func (t *Tree) SaltStats(r Root) (s Stats) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if tn := t.tenants[r.tenant]; tn != nil {
		s = tn.stats
		s.Held = s.Blocks - s.Cached
	}
	return s
}
