package account

import "errors"

// Limits are those of a salt.
func (b *Book) Limits(salt [32]byte) (quota, floor int) {
	g := b.Group(salt)
	return g.quota, g.floor
}

// SetLimits gives a salt limits, 0 for none, and returns the group of its blocks, which may have more than the quota. cached finds
// the salt's blocks without an owner. The error says why the salt cannot have such limits.
func (b *Book) SetLimits(salt [32]byte, quota, floor int, cached func(*Tenant) []uint32) (*Group, error) {
	if quota < 0 || floor < 0 || quota > 0 && floor > quota {
		return nil, errors.New("need a quota and a floor of 0 or more, and no floor above the quota")
	}
	total := b.total()
	floors := min(floor, total+1)
	for key, other := range b.tenants {
		if key != salt {
			floors += other.group.floor // no more than total, all together
		}
	}
	switch {
	case floors > total && len(b.tenants) > 0:
		return nil, errors.New("the floors of all salts are more blocks than there are")
	case floors > total:
		return nil, errors.New("the floor is more blocks than there are")
	}
	tn := b.Open(salt)
	defer b.Close(tn)
	if had := tn.group; quota != had.quota || floor != had.floor {
		if tn.limited {
			b.limited--
		}
		to := b.common
		if tn.limited = quota > 0 || floor > 0; tn.limited {
			to = b.newGroup(quota, floor)
			b.limited++
		}
		b.move(tn, to, cached(tn))
	}
	return tn.group, nil
}

// move brings a tenant's blocks to another group, the cached ones in the order of their release. Among
// those of others that are there they count as released now.
func (b *Book) move(tn *Tenant, to *Group, cached []uint32) {
	b.policies.Move(tn.group.queue, to.queue, cached, to == b.common)
	blocks, waiting := tn.counts[Blocks], tn.counts[Cached]
	b.change(tn.group, -blocks, -waiting)
	tn.group = to
	b.change(to, blocks, waiting)
}
