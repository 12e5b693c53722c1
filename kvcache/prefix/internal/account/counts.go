package account

// Reasons is the number of reasons that a lookup ends, 0 among them: everything was found.
const Reasons = 6

// Counts are what statistics count of a tree or a salt.
type Counts struct {
	Lookups, Hits, Partial     int
	Misses, Ends               [Reasons]int // lookups that found nothing, and a part
	Asked, Found               int          // tokens
	Evicted, Demoted, Promoted int
	Blocks, Cached, Offloaded  int // now: in the tree, of them without an owner, and entries whose blocks are offloaded
}

// Lookup is one that is counted.
type Lookup struct {
	Asked, Found int // tokens
	Reason       int
	Redacted     int // the reason that the salt learns
}

func (c *Counts) look(l Lookup, reason int) {
	c.Lookups++
	c.Asked += l.Asked
	c.Found += l.Found
	switch {
	case reason == 0:
		c.Hits++
	case l.Found > 0:
		c.Partial++
		c.Ends[reason]++
	default:
		c.Misses[reason]++
	}
}

// Look counts a lookup for the tree and for its salt, which learns nothing of others.
// A salt that has no blocks yet counts from its first one on.
func (b *Book) Look(salt Salt, l Lookup) {
	b.counts.look(l, l.Reason)
	if tn := b.tenants[salt]; tn != nil {
		tn.counts.look(l, l.Redacted)
	}
}

// Evict counts a block that is evicted.
func (b *Book) Evict(tn *Tenant) {
	b.counts.Evicted++
	tn.counts.Evicted++
}

// Demote counts a block that is evicted and whose entry stays, offloaded.
func (b *Book) Demote(tn *Tenant) {
	b.counts.Demoted++
	tn.counts.Demoted++
}

// Promote counts an offloaded entry that becomes resident.
func (b *Book) Promote(tn *Tenant) {
	b.counts.Promoted++
	tn.counts.Promoted++
}

// Offload counts n more offloaded entries, or fewer.
func (b *Book) Offload(tn *Tenant, n int) {
	b.counts.Offloaded += n
	tn.counts.Offloaded += n
}

// Counts are those of the whole tree.
func (b *Book) Counts() Counts { return b.counts }

// Cached is the number of blocks without an owner.
func (b *Book) Cached() int { return b.counts.Cached }

// Held is the number of blocks that have owners.
func (b *Book) Held() int { return b.counts.Blocks - b.counts.Cached }

// CountsOf are those of a salt, zero without roots and limits.
func (b *Book) CountsOf(salt Salt) Counts {
	if tn := b.tenants[salt]; tn != nil {
		return tn.counts
	}
	return Counts{}
}

// Blocks is the number of the tenant's blocks in the tree.
func (tn *Tenant) Blocks() int { return tn.counts.Blocks }
