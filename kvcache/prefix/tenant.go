package prefix

import "github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"

// tenant is everything under one salt. It exists while it has blocks or limits.
type tenant struct {
	key       Key
	roots     int
	blocks    int // in the tree
	queued    int // of them, without an owner
	offloaded int // entries whose blocks are offloaded
	limited   bool
	group     *evictionGroup
	stats     counters
}

// Limits bound the share of the cache that a salt's resident blocks take. Held blocks count, too.
type Limits struct {
	// Quota is the most blocks that the tree keeps for the salt; 0: no limit. At the quota a new
	// block replaces another one of the salt.
	Quota int
	// Floor is the number of blocks that other salts cannot evict. It is not reserved beforehand:
	// it protects blocks that the salt has.
	Floor int
}

// SetLimits sets the limits of a scope's salt; zero Limits remove them. Blocks above a new quota
// are evicted as soon as they are not in use. ErrArgument when the floor is above the quota, or the
// floors of all salts are above the number of blocks.
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
			floors += min(other.group.limits.Floor, t.alloc.Total())
		}
		if floors > t.alloc.Total() {
			return ErrArgument{Op: "limits", Why: "the floors of all salts are more blocks than there are"}
		}
	}
	if floors > t.alloc.Total() {
		return ErrArgument{Op: "limits", Why: "the floor is more blocks than there are"}
	}
	tn := t.makeTenant(r.tenant)
	if l != tn.group.limits {
		if tn.limited {
			t.groups.limited--
		}
		to := t.groups.common
		if tn.limited = l != (Limits{}); tn.limited {
			to = t.newGroup(l)
			t.groups.limited++
		}
		t.move(tn, to)
		t.trim(to)
	}
	t.dropTenant(tn)
	return nil
}

// Limits are those of a scope's salt.
func (t *Tree) Limits(r Root) Limits {
	if t.alloc == nil {
		return Limits{}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.groupOf(r).limits
}

// move brings a tenant's blocks to another share, in the order of their release. Among
// those of others that are there they count as released now.
func (t *Tree) move(tn *tenant, to *evictionGroup) {
	var waiting []uint32
	for _, r := range t.roots {
		if r.tenant != tn {
			continue
		}
		each(&r.node, func(n *node) {
			here := n.resident()
			tn.group.blocks -= here
			to.blocks += here
			for _, b := range n.blocks[:here] {
				if t.entries[b.ID].state == queued {
					waiting = append(waiting, b.ID)
				}
			}
		})
	}
	policy.Move(&tn.group.queue, &to.queue, waiting, to == t.groups.common)
	tn.group.queued -= len(waiting)
	t.groups.changed(tn.group)
	tn.group = to
	to.queued += len(waiting)
	t.groups.changed(to)
}

// entered and left count a block that the tree gets and loses.
func (tn *tenant) entered() {
	tn.blocks++
	tn.group.blocks++
	tn.group.t.groups.changed(tn.group)
}

func (tn *tenant) left() {
	tn.blocks--
	tn.group.blocks--
	tn.group.t.groups.changed(tn.group)
}

// trim evicts what a share has above its quota and nobody uses.
func (t *Tree) trim(s *evictionGroup) {
	for s.limits.Quota > 0 && s.blocks > s.limits.Quota && t.evictFrom(s) {
	}
}

// admit makes room for one more block of a tenant, within its quota.
func (t *Tree) admit(tn *tenant) bool {
	s := tn.group
	return s.limits.Quota == 0 || s.blocks < s.limits.Quota || t.evictFrom(s)
}

func (t *Tree) makeTenant(key Key) *tenant {
	tn := t.tenants[key]
	if tn == nil {
		tn = &tenant{key: key, group: t.groups.common}
		t.tenants[key] = tn
	}
	return tn
}

func (t *Tree) dropTenant(tn *tenant) {
	if tn.roots == 0 && !tn.limited {
		delete(t.tenants, tn.key)
	}
}
