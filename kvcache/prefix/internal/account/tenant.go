package account

import "unsafe"

// TenantBytes is the memory of a tenant.
const TenantBytes = int(unsafe.Sizeof(Tenant{}))

// Salt identifies a salt, by its sum; zero: none.
type Salt [32]byte

// Tenant is everything under one salt. It exists while it has roots or limits.
type Tenant struct {
	salt    Salt
	roots   int
	limited bool
	group   *Group
	counts  Counts
}

// Open is the tenant of a salt for one more root, which closes it.
func (b *Book) Open(salt Salt) *Tenant {
	tn := b.make(salt)
	tn.roots++
	return tn
}

// Close ends one Open.
func (b *Book) Close(tn *Tenant) {
	tn.roots--
	b.drop(tn)
}

// Tenants is the number of salts that have roots or limits.
func (b *Book) Tenants() int { return len(b.tenants) }

// Group is where the blocks of the salt compete.
func (tn *Tenant) Group() *Group { return tn.group }

// Group is where the blocks of a salt compete, or would.
func (b *Book) Group(salt Salt) *Group {
	if b.limited == 0 {
		return b.common
	}
	if tn := b.tenants[salt]; tn != nil {
		return tn.group
	}
	return b.common
}

func (b *Book) make(salt Salt) *Tenant {
	tn := b.tenants[salt]
	if tn == nil {
		tn = &Tenant{salt: salt, group: b.common}
		b.tenants[salt] = tn
	}
	return tn
}

func (b *Book) drop(tn *Tenant) {
	if tn.roots == 0 && !tn.limited {
		delete(b.tenants, tn.salt)
	}
}
