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
	t.book.Look(r.tenant, len(q.Tokens), m.Tokens, int(m.reason), int(m.reason.Redacted()))
}

func statsOf(c account.Counts) Stats {
	return Stats{
		Blocks: c[account.Blocks], Cached: c[account.Cached], Held: c[account.Blocks] - c[account.Cached], Offloaded: c[account.Offloaded],
		Lookups: c[account.Lookups], Hits: c[account.Hits], Partial: c[account.Partial],
		Misses: [numMissReasons]int(c[account.Missed:]), PartialReasons: [numMissReasons]int(c[account.Ended:]),
		TokensQueried: c[account.Asked], TokensHit: c[account.Found],
		Evicted: c[account.Evicted], Demoted: c[account.Demoted], Promoted: c[account.Promoted],
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
	return statsOf(t.book.CountsOf(r.tenant))
}
