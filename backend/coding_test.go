package backend_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Every coding is one that codecs and kernels can follow: what they ask of it fits together.
func TestCodings(t *testing.T) {
	names := map[string]bool{}
	storages := slices.Collect(backend.StorageTypes)
	for dt := range backend.NumDTypes {
		c := dt.Coding()
		require.NotEmpty(t, c.Name)
		require.False(t, names[c.Name], "two types are called %s", c.Name)
		names[c.Name] = true
		require.Equal(t, c.Name, dt.String())
		require.Equal(t, c.Values != backend.Invalid, slices.Contains(storages, dt), c.Name)
		require.Equal(t, c.Act || c.Scope != backend.Unscaled, c.Values != backend.Invalid, "%s is stored if it is computed with, or quantized", c.Name)
		require.Equal(t, c.Scope == backend.Unscaled, c.Scale == backend.NoScale, c.Name)
		require.Equal(t, c.Scope != backend.Unscaled, dt.Quantized(), c.Name)
		if dt == backend.Invalid {
			require.Equal(t, backend.Coding{Name: "invalid"}, c)
			continue
		}
		require.Positive(t, c.Bits, c.Name)
		require.True(t, 8%c.Bits == 0 || c.Bits%8 == 0, "%s: %d bits fill no bytes", c.Name, c.Bits)
		require.NotEqual(t, backend.NoCode, c.Code, c.Name)
		if !dt.Quantized() {
			require.Zero(t, c.Group, c.Name)
			continue
		}
		require.LessOrEqual(t, c.Bits, 8, c.Name)
		require.Zero(t, c.Group%8, "%s: codes of a group fill whole bytes", c.Name)
		require.True(t, c.Group == 0 || c.Scope == backend.ByGroup && c.Bits == 4, "%s: codes of 8 bits share a word in a whole row", c.Name)
		require.Equal(t, c.Scale == backend.StepZero, c.Code == backend.Unsigned, "%s: a zero point is for codes from 0 on", c.Name)
		require.Contains(t, supported, backend.Coding{Bits: c.Bits, Code: c.Code, Scope: c.Scope, Scale: c.Scale}, "%s: codecs and kernels know no such coding; teach them first", c.Name)
		require.True(t, c.Scale != backend.Exponents || c.Group == 32, "%s: kernels have groups of 32 for exponents", c.Name)
		require.True(t, c.Scale != backend.Minifactors || c.Group == 16, "%s: kernels have groups of 16 for small factors", c.Name)
		values := c.Values.Coding()
		require.Equal(t, c.Values, values.Values, "values of %s", c.Name)
		require.Equal(t, c.Scope == backend.ByChannel, c.Values != dt, "%s: channels are those of keys", c.Name)
	}
	require.Equal(t, []backend.DType{backend.F32, backend.F16, backend.BF16}, storages[:3], "those that are computed with come first")
	require.Equal(t, backend.Coding{Name: "invalid"}, backend.DType(200).Coding())
	for range backend.StorageTypes { // which may be left
		break
	}
}

// supported is what codecs and kernels choose by: they look at some of these each.
var supported = []backend.Coding{
	{Bits: 8, Code: backend.Signed, Scope: backend.ByGroup, Scale: backend.Factor}, // of a whole row
	{Bits: 8, Code: backend.Unsigned, Scope: backend.ByGroup, Scale: backend.StepZero},
	{Bits: 4, Code: backend.Unsigned, Scope: backend.ByGroup, Scale: backend.StepZero},
	{Bits: 4, Code: backend.Unsigned, Scope: backend.ByChannel, Scale: backend.StepZero},
	{Bits: 8, Code: backend.E4M3, Scope: backend.ByHead, Scale: backend.Factor},
	{Bits: 8, Code: backend.E5M2, Scope: backend.ByHead, Scale: backend.Factor},
	{Bits: 4, Code: backend.E2M1, Scope: backend.ByGroup, Scale: backend.Exponents},
	{Bits: 4, Code: backend.E2M1, Scope: backend.ByGroup, Scale: backend.Minifactors},
}

// A name for every value, and one for those that there are not.
func TestCodingNames(t *testing.T) {
	seen := map[string]bool{}
	for c := range backend.E2M1 + 1 {
		seen[c.String()] = true
	}
	require.Len(t, seen, int(backend.E2M1)+1)
	require.Equal(t, backend.E2M1.String(), backend.Code(200).String())
	require.Equal(t, []string{"none", "group", "channel", "head", "head"}, []string{
		backend.Unscaled.String(), backend.ByGroup.String(), backend.ByChannel.String(), backend.ByHead.String(), backend.Scope(9).String()})
	require.Equal(t, []string{"none", "factor", "step-zero", "exponents", "minifactors", "minifactors"}, []string{
		backend.NoScale.String(), backend.Factor.String(), backend.StepZero.String(), backend.Exponents.String(), backend.Minifactors.String(), backend.Scale(9).String()})
}

// Rows of every length have words for all of their elements, and no more.
func TestScaleWordsCover(t *testing.T) {
	for dt := range backend.StorageTypes {
		c := dt.Coding()
		for dim := range 300 {
			words, group := dt.ScaleWords(dim), dt.GroupOf(dim)
			switch c.Scope {
			case backend.Unscaled:
				require.Zero(t, words)
				require.Zero(t, group)
			case backend.ByGroup:
				if c.Group == 0 {
					require.Equal(t, 1, words)
					require.Equal(t, dim, group)
					continue
				}
				require.Equal(t, c.Group, group)
				each := c.Group
				if c.Scale == backend.Exponents || c.Scale == backend.Minifactors {
					each *= 4
				}
				require.GreaterOrEqual(t, words*each, dim, "%s of %d", c.Name, dim)
				require.Less(t, (words-1)*each, max(dim, 1), "%s of %d", c.Name, dim)
			default:
				require.Zero(t, words)
			}
		}
	}
}
