package account

// Count is what is counted of a tree and of each salt.
type Count int

const (
	Blocks    Count = iota // in the tree
	Cached                 // of them, without an owner
	Offloaded              // entries whose blocks are offloaded
	Evicted
	Demoted
	Promoted
	Lookups
	Hits
	Partial // lookups that found a part
	Asked   // tokens
	Found
	Missed              // lookups that found nothing, by reason from here on
	Ended  = Missed + 6 // lookups that found a part, likewise
	last   = Ended + 6
)

// Counts has a number for each Count.
type Counts [last]int

// Add counts n more, or fewer, for the tree and for a tenant. The count of Blocks and Cached changes with Enter, Leave, Cache and Take.
func (b *Book) Add(tn *Tenant, c Count, n int) {
	b.counts[c] += n
	tn.counts[c] += n
}

// Look counts a lookup for the tree and for its salt, which learns nothing of others: it has the redacted reason.
// A salt that has no blocks yet counts from its first one on. Reason 0 is that everything was found.
func (b *Book) Look(salt [32]byte, asked, found, reason, redacted int) {
	b.counts.look(asked, found, Count(reason))
	if tn := b.tenants[salt]; tn != nil {
		tn.counts.look(asked, found, Count(redacted))
	}
}

func (c *Counts) look(asked, found int, reason Count) {
	c[Lookups]++
	c[Asked] += asked
	c[Found] += found
	switch {
	case reason == 0:
		c[Hits]++
	case found > 0:
		c[Partial]++
		c[Ended+reason]++
	default:
		c[Missed+reason]++
	}
}

// Counts are those of the whole tree.
func (b *Book) Counts() Counts { return b.counts }

// CountsOf are those of a salt, zero without roots and limits.
func (b *Book) CountsOf(salt [32]byte) (c Counts) {
	if tn := b.tenants[salt]; tn != nil {
		c = tn.counts
	}
	return c
}
