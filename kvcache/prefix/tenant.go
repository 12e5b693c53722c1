package prefix

import "github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/account"

// tenant is everything under one salt. It exists while it has roots or limits.
type tenant struct {
	roots int
	group *account.Group
	stats Stats
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
	own, total := t.groupOf(r), t.alloc.Total()
	switch {
	case t.book.Floors(own)+min(l.Floor, total+1) <= total:
	case len(t.tenants) > 0:
		return ErrArgument{Op: "limits", Why: "the floors of all salts are more blocks than there are"}
	default:
		return ErrArgument{Op: "limits", Why: "the floor is more blocks than there are"}
	}
	if quota, floor := own.Limits(); quota != l.Quota || floor != l.Floor {
		tn := t.makeTenant(r.tenant)
		tn.group = t.book.Limit(tn.group, l.Quota, l.Floor, tn.stats.Blocks, t.cachedOf(tn))
		t.trim(tn.group)
		t.dropTenant(r.tenant)
	}
	return nil
}

// Limits are those of a scope's salt.
func (t *Tree) Limits(r Root) (l Limits) {
	if t.alloc != nil {
		t.mu.RLock()
		defer t.mu.RUnlock()
		l.Quota, l.Floor = t.groupOf(r).Limits()
	}
	return l
}

// groupOf is where the blocks of a scope's salt compete, or would.
func (t *Tree) groupOf(r Root) *account.Group {
	if t.book.Limited() {
		if tn := t.tenants[r.tenant]; tn != nil {
			return tn.group
		}
	}
	return t.book.Common()
}

// cachedOf are a tenant's blocks without an owner.
func (t *Tree) cachedOf(tn *tenant) (ids []uint32) {
	for _, r := range t.roots {
		if r.tenant == tn {
			ids = append(ids, t.blocksOf(r, queued)...)
		}
	}
	return ids
}

// blocksOf are a root's resident blocks in a state.
func (t *Tree) blocksOf(r *root, s entryState) (ids []uint32) {
	each(&r.node, func(n *node) {
		for _, b := range n.blocks[:n.resident()] {
			if t.entries[b.ID].state == s {
				ids = append(ids, b.ID)
			}
		}
	})
	return ids
}

// trim evicts what a group has above its quota and no sequence uses.
func (t *Tree) trim(g *account.Group) {
	for g.Room() < 0 && t.evictFrom(g) {
	}
}

// admit makes room for one more block of a tenant, within its quota.
func (t *Tree) admit(tn *tenant) bool { return tn.group.Room() > 0 || t.evictFrom(tn.group) }

// enqueue makes a block whose last owner has gone wait in its group.
func (t *Tree) enqueue(id uint32) {
	e := &t.entries[id]
	tn := e.node.root.tenant
	e.state = queued
	t.limit(id)
	t.stats.Cached++
	tn.stats.Cached++
	t.book.Cache(tn.group, id, e.priority)
}

// unqueue takes a block out of its group's queue: it has an owner again, or goes.
func (t *Tree) unqueue(id uint32) {
	e := &t.entries[id]
	tn := e.node.root.tenant
	e.state = held
	t.expiry.Remove(id)
	t.stats.Cached--
	tn.stats.Cached--
	t.book.Take(tn.group, id)
}

func (t *Tree) makeTenant(salt Key) *tenant {
	tn := t.tenants[salt]
	if tn == nil {
		tn = &tenant{group: t.book.Common()}
		t.tenants[salt] = tn
	}
	return tn
}

func (t *Tree) dropTenant(salt Key) {
	if tn := t.tenants[salt]; tn.roots == 0 && tn.group == t.book.Common() {
		delete(t.tenants, salt)
	}
}
