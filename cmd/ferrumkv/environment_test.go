package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cpuTypes are what the cpu backend can hold.
const cpuTypes = "f32, f16, bf16, int8, int8asym, fp8e4m3, fp8e5m2, int4, int4g64, int4channel, mxfp4, nvfp4"

// Every name that the flag takes is also one for the variable.
func TestEnvironmentChoosesType(t *testing.T) {
	for _, name := range strings.Split(cpuTypes, ", ") {
		args := []string{"generate", "--json", "--max-tokens", "2"}
		v := name
		if name == "int4channel" {
			args, v = append(args, "--layout", "paged", "--residual", "4"), "int4"
		}
		out, err := program(t, []string{"FERRUM_KV_DTYPE=" + name}, args...).Output()
		require.NoError(t, err, name)
		report := jsonLines(t, string(out))[1]["report"].(map[string]any)
		require.Equal(t, []any{name, v}, []any{report["k_type"], report["v_type"]})
	}
}

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
	for _, command := range []string{"generate", "doctor", "bench"} {
		cmd := program(t, []string{"FERRUM_METAL_PAGED_KV=yes"}, command)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, exitError, cmd.ProcessState.ExitCode())
		require.Contains(t, string(out), `FERRUM_METAL_PAGED_KV=yes: accepts 0 (contiguous) and 1 (paged)`)
	}
}

// A failure that a variable can cure names it, and so does one that a variable causes.
func TestErrorsNameVariables(t *testing.T) {
	two := []string{"--prompt", "a", "--prompt", "b"}
	for _, c := range []struct {
		env, args []string
		want      string
		text      bool // is shown before the failure
	}{
		{env: []string{"FERRUM_KV_MAX_BLOCKS=3"}, args: []string{"--layout", "paged"}, text: true,
			want: "the cache is full: it holds 3 blocks of 16 tokens; raise FERRUM_KV_MAX_BLOCKS"},
		{env: []string{"FERRUM_PAGED_MAX_SEQS=1", "FERRUM_KV_CAPACITY=32"}, args: append(two, "--layout", "paged"), text: true,
			want: "the cache is full: it holds 2 blocks of 16 tokens; raise FERRUM_PAGED_MAX_SEQS or FERRUM_KV_MAX_BLOCKS"},
		{env: []string{"FERRUM_KV_MAX_BLOCKS=3"}, args: []string{"--layout", "paged", "--json"},
			want: "the cache is full: it holds 3 blocks of 16 tokens; raise FERRUM_KV_MAX_BLOCKS"},
		{env: []string{"FERRUM_PAGED_MAX_SEQS=1"}, args: two,
			want: "the cache is full: it holds 1 sequence of 302 tokens; raise FERRUM_PAGED_MAX_SEQS"},
		{env: []string{"FERRUM_PAGED_MAX_SEQS=1000000000"},
			want: "the cache does not fit the memory of cpu; lower --context, or, where they are set, FERRUM_PAGED_MAX_SEQS, FERRUM_KV_MAX_BLOCKS or FERRUM_KV_CAPACITY"},
		{env: []string{"FERRUM_KV_DTYPE=int4channel"}, want: "FERRUM_KV_DTYPE=int4channel: quantizes keys in whole blocks; say with --residual N how many tokens stay as they are until then, and --layout paged"},
		{env: []string{"FERRUM_KV_DTYPE=foo"}, want: "FERRUM_KV_DTYPE=foo: cpu holds keys and values in " + cpuTypes},
		{env: []string{"FERRUM_KV_CAPACITY=10"},
			want: "prompt 1 of 1: its 17 tokens are more than the capacity of 10 tokens, which FERRUM_KV_CAPACITY sets"},
	} {
		cmd := program(t, c.env, append([]string{"generate"}, c.args...)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.Error(t, err)
		require.Equal(t, exitError, cmd.ProcessState.ExitCode(), "%v", c.env)
		require.True(t, strings.HasSuffix(stderr.String(), "ferrumkv: "+c.want+"\n"), "%v: %s", c.env, &stderr)
		require.Equal(t, c.text, len(out) > 0)
		require.Equal(t, c.text, strings.Contains(stderr.String(), "\ndecode "), "the report of the text")
	}
}

// A capacity that no table could be made for is lowered to the model's context first.
func TestCapacityIsLoweredToTheContext(t *testing.T) {
	out, err := program(t, []string{"FERRUM_KV_CAPACITY=2147483647"}, "generate", "--json", "--max-tokens", "1").Output()
	require.NoError(t, err)
	require.Equal(t, 1024., jsonLines(t, string(out))[1]["report"].(map[string]any)["block_tokens"])
}

// What doctor shows without flags is the cache that generate makes where variables say its size.
func TestDoctorAgreesWithGenerate(t *testing.T) {
	for _, c := range []struct {
		env      []string
		capacity float64
		source   string
	}{
		{[]string{"FERRUM_METAL_PAGED_KV=1", "FERRUM_KV_CAPACITY=5000"}, 1024, "model"},
		{[]string{"FERRUM_KV_CAPACITY=2147483647"}, 1024, "model"},
		{[]string{"FERRUM_KV_CAPACITY=1025"}, 1024, "model"},
		{[]string{"FERRUM_KV_CAPACITY=1024"}, 1024, "environment"},
		{[]string{"FERRUM_KV_CAPACITY=512", "FERRUM_METAL_PAGED_KV=1"}, 512, "environment"},
	} {
		c.env = append(c.env, "FERRUM_PAGED_MAX_SEQS=3")
		out, err := program(t, c.env, "doctor", "--json").Output()
		require.NoError(t, err)
		cache := jsonLines(t, string(out))[0]["cache"].(map[string]any)
		require.Contains(t, cache["settings"], map[string]any{"name": "capacity", "value": c.capacity, "source": c.source, "variable": "FERRUM_KV_CAPACITY"}, "%v", c.env)
		out, err = program(t, c.env, "generate", "--json", "--max-tokens", "1").Output()
		require.NoError(t, err)
		require.Equal(t, jsonLines(t, string(out))[1]["report"].(map[string]any)["bytes_total"], cache["bytes"], "%v", c.env)
	}
}

func TestEnvironmentChoosesPrefixReuse(t *testing.T) {
	for _, c := range []struct {
		env, args []string
		want      string
	}{
		{env: []string{"FERRUM_KV_PREFIX=off"}, want: `prefix reuse +off +environment +FERRUM_KV_PREFIX\n`},
		{env: []string{"FERRUM_KV_PREFIX=off"}, args: []string{"--prefix", "slru"}, want: `prefix reuse +slru +option +FERRUM_KV_PREFIX\n`},
	} {
		out, err := program(t, c.env, append([]string{"doctor", "--layout", "paged"}, c.args...)...).Output()
		require.NoError(t, err)
		require.Regexp(t, c.want, string(out))
	}
	out, err := program(t, []string{"FERRUM_KV_PREFIX=off"}, "generate", "--json", "--layout", "paged", "--max-tokens", "2").Output()
	require.NoError(t, err)
	require.Equal(t, "off", jsonLines(t, string(out))[1]["report"].(map[string]any)["prefix_reuse"])
	out, err = program(t, []string{"FERRUM_KV_PREFIX=arc"}, "generate").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "FERRUM_KV_PREFIX=arc: accepts adaptive, lru, lfu, slru, priority, off")
}

func TestDoctorFindsProblems(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"FERRUM_PAGED_MAX_SEQS=1000000000", `the cache of .* does not fit the memory of cpu, .*; lower FERRUM_PAGED_MAX_SEQS, FERRUM_KV_MAX_BLOCKS or FERRUM_KV_CAPACITY`},
	} {
		out, err := program(t, []string{c.env}, "doctor").CombinedOutput()
		require.Error(t, err)
		require.Regexp(t, `\n  bytes by type .*\nferrumkv: `+c.want+`\n$`, unwrapped(string(out)), "after the settings")
		cmd := program(t, []string{c.env}, "doctor", "--json")
		out, err = cmd.Output()
		require.Error(t, err)
		require.Equal(t, exitError, cmd.ProcessState.ExitCode())
		problems := jsonLines(t, string(out))[0]["problems"].([]any)
		require.Len(t, problems, 1)
		require.Regexp(t, c.want, problems[0])
	}
}

func TestDoctorShowsOrigins(t *testing.T) {
	out, err := program(t, []string{"FERRUM_METAL_PAGED_KV=1", "FERRUM_KV_CAPACITY=512"}, "doctor", "--block-size", "8").Output()
	require.NoError(t, err)
	require.Regexp(t, `layout +paged +environment +FERRUM_METAL_PAGED_KV\n`, string(out))
	require.Regexp(t, `capacity +512 +environment +FERRUM_KV_CAPACITY\n`, string(out))
	require.Regexp(t, `block size +8 +option\n`, string(out))
	require.Regexp(t, `prefix reuse +adaptive +default +FERRUM_KV_PREFIX\n`, string(out))
	require.Regexp(t, `max sequences +8 +default +FERRUM_PAGED_MAX_SEQS\n`, string(out))
	require.Regexp(t, `\n  layers +4 +model\n  query heads +4 +model\n  KV heads +2 +model\n  head dim +64 +model\n`, string(out))
}
