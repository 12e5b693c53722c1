package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// perCode is a function for each way to code elements, of which some types have the same.
type perCode[F any] struct {
	f32, f16, bf16         F
	signed8, unsigned8     F // with scales of a row's own
	unsigned4, wide4       F // of groups to 32 elements, and of larger ones
	channels4              F // whose channels have scales
	float4                 F // of groups that share a power of two
	scaled4                F // of groups that share an 8-bit float times the head's factor
	float8e4m3, float8e5m2 F
}

// table is the functions by type; zero for types that are not stored.
func (p perCode[F]) table() (all [types]F) {
	for dt := range backend.StorageTypes {
		all[dt] = p.of(dt.Coding())
	}
	return all
}

func (p *perCode[F]) of(c backend.Coding) (none F) {
	switch c.Code {
	case backend.IEEEFloat:
		if c.Bits == 32 {
			return p.f32
		}
		return p.f16
	case backend.BrainFloat:
		return p.bf16
	case backend.Signed:
		return p.signed8
	case backend.E4M3:
		return p.float8e4m3
	case backend.E5M2:
		return p.float8e5m2
	case backend.E2M1:
		if c.Scale == backend.Minifactors {
			return p.scaled4
		}
		return p.float4
	case backend.Unsigned:
		switch {
		case c.Scope == backend.ByChannel:
			return p.channels4
		case c.Bits == 8:
			return p.unsigned8
		case c.Group > groupAtOnce:
			return p.wide4
		}
		return p.unsigned4
	}
	return none
}

// groupAtOnce is the codes of 4 bits that share a step in assembly.
const groupAtOnce = 32
