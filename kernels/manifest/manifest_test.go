package manifest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func example() *Manifest {
	return &Manifest{
		ABI: 7, Compiler: "nvcc 12.4.131", Compressor: "zstd 1.5.4", Options: []string{"-O3", "-std=c++17"},
		Architectures: []string{"sm_80", "sm_90", "compute_90"},
		Sources:       []Source{{"../abi.h", "01"}, {"append.cu", "02"}, {"fill.cu", "03"}},
		Units:         []Unit{{"append.cu", []string{"../abi.h", "append.cu"}}, {"fill.cu", []string{"../abi.h", "fill.cu"}}},
		Archives:      []Archive{{"first", "06", ""}, {"second", "07", "first"}},
		Families:      []Family{{"append", "append.cu", "first", 800, "04"}, {"fill", "fill.cu", "second", 16, "05"}},
		Kernels: []Kernel{
			{"fkv_append_f16_f16", "append", 128, 0, []int{32, 34}},
			{"fkv_append_f32_f32", "append", 256, 1024, []int{40, 41}},
			{"fkv_fill", "fill", 1024, 0, []int{8, 9}},
		},
	}
}

func TestRoundTrip(t *testing.T) {
	m, err := Parse(example().String())
	require.NoError(t, err)
	require.Equal(t, example(), m)
	require.Equal(t, example().String(), m.String())
	require.Equal(t, []string{"sm_80", "sm_90"}, Machines(m.Architectures))
}

func TestFamilies(t *testing.T) {
	m := example()
	m.Families = append(m.Families, Family{"other", "fill.cu", "first", 24, "08"}, Family{"rest", "fill.cu", "first", 8, "09"})
	f, at, ok := m.Family("rest")
	require.True(t, ok)
	require.Equal(t, m.Families[3], f)
	require.Equal(t, 824, at)
	require.Equal(t, 832, m.Bytes("first"))
	require.Equal(t, 16, m.Bytes("second"))
	require.Zero(t, m.Bytes("third"))
	_, _, ok = m.Family("fil")
	require.False(t, ok)
	a, ok := m.Archive("second")
	require.True(t, ok)
	require.Equal(t, m.Archives[1], a)
	_, ok = m.Archive("third")
	require.False(t, ok)
}

func TestFind(t *testing.T) {
	m := example()
	for _, k := range m.Kernels {
		found, ok := m.Find(k.Symbol)
		require.True(t, ok)
		require.Equal(t, k, found)
	}
	for _, none := range []string{"", "fkv_append", "fkv_fill_", "zzz"} {
		_, ok := m.Find(none)
		require.False(t, ok, none)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Find("fkv_append_f32_f32") }))
}

// A manifest that was cut, merged badly or edited by hand is refused.
func TestParseRefuses(t *testing.T) {
	text := example().String()
	for _, c := range []struct{ old, new, want string }{
		{"abi 7\n", "", "missing"},
		{"abi 7", "abi seven", "invalid syntax"},
		{"abi 7", "abi 7 8", "one number"},
		{"compiler nvcc 12.4.131\n", "", "missing"},
		{"compressor zstd 1.5.4\n", "", "missing"},
		{"architectures sm_80 sm_90 compute_90\n", "", "missing"},
		{"sm_80 sm_90 compute_90", "sm_80", "registers for 2 architectures, want 1"},
		{"source append.cu 02", "source append.cu", "a path and a sum"},
		{"source append.cu 02\n", "", "source append.cu is not listed"},
		{"unit fill.cu ../abi.h fill.cu\n", "", "unit fill.cu is not listed"},
		{"unit fill.cu ../abi.h fill.cu", "unit fill.cu", "not enough"},
		{"unit fill.cu", "unit alpha.cu", "unit alpha.cu comes after append.cu"},
		{"archive first 06", "archive first", "a name, a sum and a dictionary"},
		{"archive first 06", "archive first 06 second 3", "a name, a sum and a dictionary"},
		{"archive first 06", "archive first 06 second", "archive first: second is no dictionary"},
		{"07 first", "07 third", "archive second: third is no dictionary"},
		{"07 first", "07 second", "archive second: second is no dictionary"},
		{"archive first", "archive third", "archive second comes after third"},
		{"append.cu first 800", "append.cu third 800", "archive third is not listed"},
		{"family fill fill.cu second 16 05\n", "", "family fill is not listed"},
		{"fill fill.cu second 16", "fill fill.cu first 16", "archive second holds no family"},
		{"second 16 05", "second 16", "size and sum"},
		{"second 16 05", "second 12 05", "no size"},
		{"second 16 05", "second -16 05", "no size"},
		{"second 16 05", "second 99999999992 05", "no size"},
		{"second 16 05", "second much 05", "no size"},
		{"family fill", "family alpha", "family alpha comes after append"},
		{"kernel fkv_fill fill 1024 0 8 9\n", "", "family fill has no kernel"},
		{"fkv_append_f32_f32", "fkv_append_f16_f16", "fkv_append_f16_f16 comes after fkv_append_f16_f16"},
		{"fill 1024 0 8 9", "fill 1025 0 8 9", "1025 threads"},
		{"fill 1024 0 8 9", "fill 0 0 8 9", "0 threads"},
		{"fill 1024 0 8 9", "fill 1024 -1 8 9", "no count"},
		{"fill 1024 0 8 9", "fill 1024 0 8", "registers for 1 architectures, want 2"},
		{"fill 1024 0 8 9", "fill", "not enough"},
		{"kernel fkv_fill", "colonel fkv_fill", "unknown entry \"colonel\""},
	} {
		require.Contains(t, text, c.old)
		m, err := Parse(strings.Replace(text, c.old, c.new, 1))
		require.ErrorContains(t, err, c.want, "%s -> %s", c.old, c.new)
		require.Nil(t, m)
	}
	_, err := Parse("")
	require.Error(t, err)
	_, err = Parse("\n\nkernel a")
	require.ErrorContains(t, err, "line 3")
}
