package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnvironmentChoosesLayout(t *testing.T) {
	for value, layout := range map[string]string{"": "contiguous", "0": "contiguous", "1": "paged"} {
		out, err := program(t, []string{"FERRUM_METAL_PAGED_KV=" + value}, "generate", "--json", "--max-tokens", "2").Output()
		require.NoError(t, err)
		require.Equal(t, layout, jsonLines(t, string(out))[1]["report"].(map[string]any)["layout"], "%q", value)
	}
	out, err := program(t, []string{"FERRUM_METAL_PAGED_KV=1"}, "generate", "--json", "--max-tokens", "2", "--layout", "contiguous").Output()
	require.NoError(t, err)
	require.Equal(t, "contiguous", jsonLines(t, string(out))[1]["report"].(map[string]any)["layout"], "the flag wins")
}

func TestEnvironmentBadValue(t *testing.T) {
	for _, command := range []string{"generate", "doctor"} {
		cmd := program(t, []string{"FERRUM_METAL_PAGED_KV=yes"}, command)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, exitError, cmd.ProcessState.ExitCode())
		require.Contains(t, string(out), `FERRUM_METAL_PAGED_KV="yes": accepts 0 (contiguous) and 1 (paged)`)
	}
}

func TestDoctorShowsOrigins(t *testing.T) {
	out, err := program(t, []string{"FERRUM_METAL_PAGED_KV=1", "FERRUM_KV_CAPACITY=512"}, "doctor", "--block-size", "8").Output()
	require.NoError(t, err)
	require.Regexp(t, `layout +paged +environment +FERRUM_METAL_PAGED_KV\n`, string(out))
	require.Regexp(t, `capacity +512 +environment +FERRUM_KV_CAPACITY\n`, string(out))
	require.Regexp(t, `block size +8 +option\n`, string(out))
	require.Regexp(t, `max sequences +8 +default +FERRUM_PAGED_MAX_SEQS\n`, string(out))
}
