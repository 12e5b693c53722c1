package prefix

import "github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/account"

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

// count notes a lookup for the tree and for its salt.
func (t *Tree) count(r Root, q Query, m Match) {
	t.book.Look(r.salt(), account.Lookup{Asked: len(q.Tokens), Found: m.Tokens, Reason: int(m.reason), Redacted: int(m.reason.Redacted())})
}

func statsOf(c account.Counts) Stats {
	return Stats{
		Blocks: c.Blocks, Cached: c.Cached, Held: c.Blocks - c.Cached, Offloaded: c.Offloaded,
		Lookups: c.Lookups, Hits: c.Hits, Partial: c.Partial, Misses: c.Misses, PartialReasons: c.Ends,
		TokensQueried: c.Asked, TokensHit: c.Found, Evicted: c.Evicted, Demoted: c.Demoted, Promoted: c.Promoted,
	}
}

// Stats returns the numbers of the whole tree.
func (t *Tree) Stats() Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.alloc == nil {
		return Stats{}
	}
	s := statsOf(t.book.Counts())
	s.Nodes, s.Roots, s.Pinned = t.nodes, len(t.roots), t.pinned
	return s
}

// SaltStats returns the numbers of a scope's salt. They do not depend on what other salts do,
// except for evictions, and are kept while the salt has blocks or limits.
func (t *Tree) SaltStats(r Root) Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.alloc == nil {
		return Stats{}
	}
	return statsOf(t.book.CountsOf(r.salt()))
}
