package prefix

import "sort"

// tenant is everything under one salt. It exists while it has blocks or limits.
type tenant struct {
	key     Key
	roots   int
	blocks  int // in the tree
	queued  int // of them, without an owner
	away    int // entries whose blocks are away
	limited bool
	share   *share
	stats   counters
}

// Limits bound what a salt's blocks may take of the cache. Blocks in use count, those that
// are away do not.
type Limits struct {
	// Quota is the most blocks that the tree keeps for the salt; 0: no limit. At
	// the quota a new block takes the place of one of the salt's own.
	Quota int
	// Floor is the number of blocks that only the salt itself can displace. It is
	// kept from others once it is filled, not before.
	Floor int
}

// SetLimits sets the limits of a scope's salt; zero Limits remove them. Blocks above a
// new quota go as soon as they are not in use. ErrArgument where a floor is above
// the quota or the floors of all salts are above what there is.
func (t *Tree) SetLimits(r Root, l Limits) error {
	if err := t.made("limits"); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.Quota < 0 || l.Floor < 0 || l.Quota > 0 && l.Floor > l.Quota {
		return ErrArgument{Op: "limits", Why: "need a quota and a floor of 0 or more, and no floor above the quota"}
	}
	floors := min(l.Floor, t.alloc.Total()+1)
	for key, other := range t.tenants {
		if key != r.tenant {
			floors += min(other.share.limits.Floor, t.alloc.Total())
		}
		if floors > t.alloc.Total() {
			return ErrArgument{Op: "limits", Why: "the floors of all salts are more blocks than there are"}
		}
	}
	if floors > t.alloc.Total() {
		return ErrArgument{Op: "limits", Why: "the floor is more blocks than there are"}
	}
	tn := t.makeTenant(r.tenant)
	if l != tn.share.limits {
		if tn.limited {
			t.shares.limited--
		}
		to := t.shares.common
		if tn.limited = l != (Limits{}); tn.limited {
			to = t.newShare(l)
			t.shares.limited++
		}
		t.move(tn, to)
		t.trim(to)
	}
	t.dropTenant(tn)
	return nil
}

// move brings a tenant's blocks to another share, in the order of their release. Among
// those of others that are there they count as released now.
func (t *Tree) move(tn *tenant, to *share) {
	var waiting []uint32
	for _, r := range t.roots {
		if r.tenant != tn {
			continue
		}
		each(&r.node, func(n *node) {
			here := n.resident()
			tn.share.blocks -= here
			to.blocks += here
			for _, b := range n.blocks[:here] {
				if t.entries[b.ID].state == queued {
					waiting = append(waiting, b.ID)
				}
			}
		})
	}
	sort.Slice(waiting, func(i, j int) bool { return t.entries[waiting[i]].stamp < t.entries[waiting[j]].stamp })
	for _, id := range waiting {
		tn.share.ranker.taken(tn.share, id)
	}
	tn.share.queued -= len(waiting)
	t.shares.changed(tn.share)
	tn.share = to
	for _, id := range waiting {
		if to == t.shares.common {
			t.clock++
			t.entries[id].stamp = t.clock
		}
		to.ranker.released(to, id)
	}
	to.queued += len(waiting)
	t.shares.changed(to)
}

// entered and left count a block that the tree gets and loses.
func (tn *tenant) entered() {
	tn.blocks++
	tn.share.blocks++
	tn.share.t.shares.changed(tn.share)
}

func (tn *tenant) left() {
	tn.blocks--
	tn.share.blocks--
	tn.share.t.shares.changed(tn.share)
}

// trim evicts what a share has above its quota and nobody uses.
func (t *Tree) trim(s *share) {
	for s.limits.Quota > 0 && s.blocks > s.limits.Quota && t.evictFrom(s) {
	}
}

// admit makes room for one more block of a tenant, within his quota.
func (t *Tree) admit(tn *tenant) bool {
	s := tn.share
	return s.limits.Quota == 0 || s.blocks < s.limits.Quota || t.evictFrom(s)
}

func (t *Tree) makeTenant(key Key) *tenant {
	tn := t.tenants[key]
	if tn == nil {
		tn = &tenant{key: key, share: t.shares.common}
		t.tenants[key] = tn
	}
	return tn
}

func (t *Tree) dropTenant(tn *tenant) {
	if tn.roots == 0 && !tn.limited {
		delete(t.tenants, tn.key)
	}
}
