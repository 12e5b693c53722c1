package account

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix/internal/policy"
)

// Limits bound the share of the cache that a salt's resident blocks take.
type Limits struct{ Quota, Floor int }

// Limits are those of a salt.
func (b *Book) Limits(salt Salt) Limits { return b.Group(salt).limits }

// CheckLimits says why a salt cannot have limits.
func (b *Book) CheckLimits(salt Salt, l Limits) error {
	if l.Quota < 0 || l.Floor < 0 || l.Quota > 0 && l.Floor > l.Quota {
		return errors.New("need a quota and a floor of 0 or more, and no floor above the quota")
	}
	total := b.total()
	floors := min(l.Floor, total+1)
	for key, other := range b.tenants {
		if key != salt {
			floors += min(other.group.limits.Floor, total)
		}
		if floors > total {
			return errors.New("the floors of all salts are more blocks than there are")
		}
	}
	if floors > total {
		return errors.New("the floor is more blocks than there are")
	}
	return nil
}

// SetLimits gives a salt limits that CheckLimits accepts, and returns the group of its blocks, which may have more than the quota.
// cached finds the salt's blocks without an owner.
func (b *Book) SetLimits(salt Salt, l Limits, cached func(*Tenant) []uint32) *Group {
	tn := b.make(salt)
	if l != tn.group.limits {
		if tn.limited {
			b.limited--
		}
		to := b.common
		if tn.limited = l != (Limits{}); tn.limited {
			to = b.newGroup(l)
			b.limited++
		}
		b.move(tn, to, cached(tn))
	}
	b.drop(tn)
	return tn.group
}

// move brings a tenant's blocks to another group, the cached ones in the order of their release. Among
// those of others that are there they count as released now.
func (b *Book) move(tn *Tenant, to *Group, cached []uint32) {
	from := tn.group
	policy.Move(&from.queue, &to.queue, cached, to == b.common)
	from.blocks -= tn.counts.Blocks
	from.cached -= tn.counts.Cached
	b.changed(from)
	tn.group = to
	to.blocks += tn.counts.Blocks
	to.cached += tn.counts.Cached
	b.changed(to)
}
