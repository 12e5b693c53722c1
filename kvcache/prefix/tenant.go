package prefix

import "github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/account"

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
	g, err := t.book.SetLimits(r.tenant, l.Quota, l.Floor, t.cachedOf)
	if err != nil {
		return ErrArgument{Op: "limits", Why: err.Error()}
	}
	t.trim(g)
	return nil
}

// Limits are those of a scope's salt.
func (t *Tree) Limits(r Root) (l Limits) {
	if t.alloc != nil {
		t.mu.RLock()
		defer t.mu.RUnlock()
		l.Quota, l.Floor = t.book.Limits(r.tenant)
	}
	return l
}

// cachedOf are a tenant's blocks without an owner.
func (t *Tree) cachedOf(tn *account.Tenant) (ids []uint32) {
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
func (t *Tree) admit(tn *account.Tenant) bool {
	g := tn.Group()
	return g.Room() > 0 || t.evictFrom(g)
}

// enqueue makes a block whose last owner has gone wait in its group.
func (t *Tree) enqueue(id uint32) {
	e := &t.entries[id]
	e.state = queued
	t.limit(id)
	t.book.Cache(e.node.root.tenant, id, e.priority)
}

// unqueue takes a block out of its group's queue: it has an owner again, or goes.
func (t *Tree) unqueue(id uint32) {
	e := &t.entries[id]
	e.state = held
	t.expiry.Remove(id)
	t.book.Take(e.node.root.tenant, id)
}
