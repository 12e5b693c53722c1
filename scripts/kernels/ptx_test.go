package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFamilies(t *testing.T) {
	for symbol, want := range map[string][2]string{
		"fkv_attend_decode_bf16_bf16_128_128": {"attend_decode_bf16_bf16_128_128", "attend_128_128"},
		"fkv_attend_vector_f32_quant_192_128": {"attend_vector_f32_quant_192_128", "attend_192_128"},
		"fkv_attend_mass_f16_f16_80_80":       {"attend_mass_f16_f16_80_80", "attend_80_80"},
		"fkv_attend_merge_f16":                {"file", "other"},
		"fkv_append_f16_f16":                  {"file", "other"},
	} {
		family := familyOf("file", symbol)
		require.Equal(t, want, [2]string{family, archiveOf(family).Name}, symbol)
	}
	require.Equal(t, root, archiveOf("attend_mass_f16_f16_80_80").Base)
	require.Equal(t, "attend_80_80", archiveOf("attend_mass_f16_f16_96_96").Base)
	require.Empty(t, archiveOf("attend_mass_f16_f16_128_128").Base)
}

const ptx = `//
.version 8.4
.target sm_90
.address_size 64

	// .globl	fkv_a
.global .align 4 .b8 fkv_a_launch[8] = {128, 0, 0, 0, 0, 33, 1};
.global .align 4 .b8 fkv_b_launch[8] = {64};
.extern .shared .align 128 .b8 shared[];

.visible .entry fkv_a(
	.param .u64 fkv_a_param_0
)
.maxntid 128, 1, 1
{
	{
	mov.u32 %r1, a;
	}
}
.func (.reg .u32 r) helper()
{
	ret;
}
	// .globl	fkv_b
.visible .entry fkv_b()
{
	mov.u32 %r1, b;
}
`

// A module has its kernels with the words of their launches, and what belongs to none.
func TestDivide(t *testing.T) {
	symbol := func(s string) string { return s }
	parts, err := divide([]byte(ptx), symbol)
	require.NoError(t, err)
	require.Len(t, parts, 2)
	for name, other := range map[string]string{"a": "b", "b": "a"} {
		part := string(parts["fkv_"+name])
		for _, has := range []string{".version 8.4", ".extern .shared", "helper()", "ret;", "fkv_" + name + "_launch[8]", ".entry fkv_" + name + "(", "%r1, " + name + ";"} {
			require.Contains(t, part, has)
		}
		require.Equal(t, 2, strings.Count(part, "\n}\n"), part)
		require.NotContains(t, part, "fkv_"+other+"_launch")
		require.NotContains(t, part, ".entry fkv_"+other)
		require.NotContains(t, part, "%r1, "+other+";")
	}
	one, err := divide([]byte(ptx), func(string) string { return "all" })
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"all": []byte(ptx)}, one)

	_, err = divide([]byte(strings.TrimSuffix(ptx, "}\n")), symbol)
	require.ErrorContains(t, err, "fkv_b, has no end")
	_, err = divide([]byte(strings.Replace(ptx, "\n}\n", "\n", 2)), symbol)
	require.ErrorContains(t, err, "kernel fkv_b begins inside of another")
}

// Inline assembly may have braces at the begin of lines: they end no kernel.
func TestDivideBraces(t *testing.T) {
	inline := strings.Replace(ptx, "\tmov.u32 %r1, a;", "{\n .reg .pred p;\nagain:\n}\n\tmov.u32 %r1, a;", 1)
	parts, err := divide([]byte(inline), func(s string) string { return s })
	require.NoError(t, err)
	require.Contains(t, string(parts["fkv_a"]), "again:\n}\n\tmov.u32 %r1, a;")
	require.NotContains(t, string(parts["fkv_b"]), "%r1, a;")
}
