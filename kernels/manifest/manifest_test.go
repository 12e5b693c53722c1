package manifest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func example() *Manifest {
	return &Manifest{
		ABI: 7, Compiler: "nvcc 11.8.89", Options: []string{"-O3", "-gencode", "arch=compute_80,code=sm_80"},
		Architectures: []string{"sm_80", "sm_90", "compute_80"},
		Sources:       []Source{{"../abi.h", "01"}, {"append.cu", "02"}, {"fill.cu", "03"}},
		Families:      []Family{{"append", "04", []string{"../abi.h", "append.cu"}}, {"fill", "05", []string{"../abi.h", "fill.cu"}}},
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
		{"compiler nvcc 11.8.89\n", "", "missing"},
		{"architectures sm_80 sm_90 compute_80\n", "", "missing"},
		{"sm_80 sm_90 compute_80", "sm_80", "registers for 2 architectures, want 1"},
		{"source append.cu 02", "source append.cu", "a path and a sum"},
		{"source append.cu 02\n", "", "source append.cu is not listed"},
		{"family fill 05 ../abi.h fill.cu\n", "", "family fill is not listed"},
		{"family fill 05 ../abi.h fill.cu", "family fill 05", "not enough"},
		{"family fill 05", "family alpha 05", "family alpha comes after append"},
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
