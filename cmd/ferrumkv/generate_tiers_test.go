package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// lily is a prompt of 55 tokens: three blocks of 16, and a part of one.
const lily = "Once upon a time, there was a little girl named Lily. "

// tiersOf are what a run with --json says of tiers, and the report that it is a part of.
func tiersOf(t *testing.T, stdout string) (report map[string]any, tiers []map[string]any) {
	t.Helper()
	lines := jsonLines(t, stdout)
	report = lines[len(lines)-1]["report"].(map[string]any)
	for _, row := range report["tiers"].([]any) {
		tiers = append(tiers, row.(map[string]any))
	}
	return report, tiers
}

// reusedIn is the numbers of a report that say what was computed, and what was not.
func reusedIn(report map[string]any) []any {
	return []any{report["prompt_tokens"], report["reused_tokens"], report["reused_tokens_device"], report["prefill_tokens"]}
}

// The second process with --disk computes only what is new, and prints the same text, also where it is sampled.
func TestGenerateSecondRun(t *testing.T) {
	for _, sampling := range []string{"", " --temperature 0.9 --seed 5"} {
		run := func(prompt, more string) (text string, report map[string]any, tiers []map[string]any) {
			args := append([]string{"generate", "--json", "--max-tokens", "40", "--prompt", prompt}, strings.Fields(more+sampling)...)
			cmd := program(t, nil, args...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			require.NoError(t, err, "%s", &stderr)
			if strings.Contains(more, "--disk") {
				report, tiers = tiersOf(t, string(out))
			}
			return jsonLines(t, string(out))[0]["text"].(string), report, tiers
		}
		disk := "--disk " + filepath.Join(t.TempDir(), "new") + " --disk-bytes 32MiB"
		plain, _, _ := run(lily, "")
		text, report, tiers := run(lily, disk)
		require.Equal(t, plain, text)
		require.Equal(t, []any{55., 0., 0., 55.}, reusedIn(report))
		require.Equal(t, []any{"paged", "disk", 0., 0.}, []any{report["layout"], tiers[0]["name"], tiers[0]["reused_tokens"], tiers[0]["loaded_bytes"]})
		require.Equal(t, []any{5 * 32768., 5., 5 * 32768., 0.}, []any{tiers[0]["stored_bytes"], tiers[0]["blocks"], tiers[0]["bytes"], tiers[0]["failed_calls"]},
			"94 of 95 tokens are in the cache, 80 of them in full blocks")

		text, report, tiers = run(lily, disk)
		require.Equal(t, plain, text)
		require.Equal(t, []any{55., 48., 0., 7.}, reusedIn(report))
		require.Equal(t, []any{"disk", 48., 3 * 32768., 0.}, []any{tiers[0]["medium"], tiers[0]["reused_tokens"], tiers[0]["loaded_bytes"], tiers[0]["stored_bytes"]})
		require.Positive(t, report["load_seconds"])

		// A prompt that goes on where the text ended finds the text, too.
		plain, _, _ = run(lily+plain+" Then", "")
		again, report, tiers := run(lily+text+" Then", disk+" --host-bytes 8MiB --disk-admission second-use")
		require.Equal(t, plain, again)
		require.Equal(t, []any{100., 80., 0., 20.}, reusedIn(report))
		require.Equal(t, []any{"memory", 0., "disk", 80.}, []any{tiers[0]["name"], tiers[0]["reused_tokens"], tiers[1]["name"], tiers[1]["reused_tokens"]})
	}
}

// The report for people says what came from where. Of a second turn, what the first one left is on the device.
func TestGenerateTiersReport(t *testing.T) {
	dir := t.TempDir()
	args := []string{"generate", "--prompt", lily, "--max-tokens", "40", "--disk", dir, "--disk-bytes", "32MiB", "--host-bytes", "16MiB"}
	r := succeeds(t, args...)
	require.Regexp(t, `
reused   0 of 55 prompt tokens: 0 from the device, 0 from memory, 0 from disk
tiers    memory: 0 B loaded, 160\.0 KiB stored, has 160\.0 KiB of 16\.0 MiB
         disk: 0 B loaded, 160\.0 KiB stored, has 160\.0 KiB of 31\.\d MiB
blocks `, r.stderr)
	again := succeeds(t, append(args, "--turn", " Then")...)
	require.True(t, strings.HasPrefix(again.stdout, strings.TrimSuffix(r.stdout, "\n")))
	require.Regexp(t, `
reused   142 of 155 prompt tokens: 94 from the device, 0 from memory, 48 from disk, in [\d.]+ .?s
tiers    memory: 0 B loaded, \d+\.0 KiB stored, has \d+\.0 KiB of 16\.0 MiB
         disk: 96\.0 KiB loaded, 96\.0 KiB stored, has 256\.0 KiB of 31\.\d MiB
`, again.stderr)
}

// A disk whose blocks are damaged costs their computation, and changes no text.
func TestGenerateDamagedDisk(t *testing.T) {
	dir := t.TempDir()
	args := []string{"generate", "--json", "--prompt", lily, "--max-tokens", "40", "--disk", dir, "--disk-bytes", "32MiB"}
	want := jsonLines(t, succeeds(t, args...).stdout)[0]["text"]
	files, err := filepath.Glob(filepath.Join(dir, "*", "data"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	for i := 100; i < len(data); i += 32768 {
		data[i] ^= 1
	}
	require.NoError(t, os.WriteFile(files[0], data, 0o600))
	r := succeeds(t, args...)
	require.Equal(t, want, jsonLines(t, r.stdout)[0]["text"])
	report, tiers := tiersOf(t, r.stdout)
	require.Equal(t, []any{55., 0., 0., 55.}, reusedIn(report))
	require.Positive(t, tiers[0]["corrupt_blocks"])
	require.Contains(t, succeeds(t, append(args[:1:1], args[2:]...)...).stderr, " from disk")
}

// Tiers need the paged layout, and say so by the names of what asked for each.
func TestGenerateTiersBadFlags(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		env, args string
		want      string
	}{
		{"", "--layout contiguous --disk " + dir, "--layout contiguous: tiers (--disk) need the paged layout"},
		{"", "--layout contiguous --host-bytes 1MiB --disk " + dir, "--layout contiguous: tiers (--host-bytes, --disk) need the paged layout"},
		{"", "--prefix off --disk " + dir, "--prefix off: tiers (--disk) need prefix reuse"},
		{"", "--host-bytes 0", "--host-bytes 0: accepts bytes such as 1048576, 64MiB, auto"},
		{"", "--host-bytes 5", "--host-bytes 5: has no room for a block, which takes 32768 bytes"},
		{"", "--host-bytes lots", "--host-bytes lots: accepts"},
		{"", "--host-bytes 1000TiB", "--host-bytes 1000TiB: this machine has "},
		{"", "--disk-bytes auto --disk " + dir, "--disk-bytes auto: accepts bytes such as 1048576, 10GiB"},
		{"", "--disk-bytes 10GiB", "--disk-bytes 10GiB: is for --disk"},
		{"", "--disk-admission all", "--disk-admission all: is for --disk"},
		{"", "--disk-admission some --disk " + dir, "--disk-admission some: accepts all and second-use"},
		{"", "--disk " + file, "--disk: " + file + " is a file, not a directory"},
		{"FERRUM_KV_HOST_BYTES=1000TiB", "", "FERRUM_KV_HOST_BYTES=1000TiB: this machine has "},
	} {
		t.Run(c.env+" "+c.args, func(t *testing.T) {
			cmd := program(t, []string{c.env}, append([]string{"generate"}, strings.Fields(c.args)...)...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			require.Error(t, err)
			require.Empty(t, out)
			require.Contains(t, stderr.String(), c.want)
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"))
		})
	}
}

// A disk that another process has open is refused in the words of the program.
func TestGenerateDiskInUse(t *testing.T) {
	dir := t.TempDir()
	cmd := program(t, nil, "chat", "--disk", dir, "--max-tokens", "1", "--template", file(t, "t.jinja", storyTemplate))
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(in, "hello\n")
	require.NoError(t, err)
	_, err = out.Read(make([]byte, 1)) // it has opened the disk
	require.NoError(t, err)
	fails(t, []string{"generate", "--disk", dir}, "ferrumkv: --disk "+dir+": another ferrumkv has it open for this model and format; wait for that, or name another directory\n")
	require.NoError(t, in.Close())
	_, err = io.Copy(io.Discard, out)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
}

// A variable that conflicts with the flags, or does not suit the machine, is ignored, and a line on stderr says so.
func TestGenerateWithoutVariables(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct{ env, args, want string }{
		{"FERRUM_KV_HOST_BYTES=1MiB", "--layout contiguous", "variable=FERRUM_KV_HOST_BYTES value=1048576"},
		{"FERRUM_METAL_PAGED_KV=0", "--disk " + filepath.Join(dir, "own"), "variable=FERRUM_METAL_PAGED_KV value=0"},
		{"FERRUM_KV_DISK_DIR=" + filepath.Join(dir, "d"), "--prefix off --layout paged", "variable=FERRUM_KV_DISK_DIR"},
		{"FERRUM_KV_DISK_DIR=" + file, "", "variable=FERRUM_KV_DISK_DIR value=" + file},
	} {
		t.Run(c.env+" "+c.args, func(t *testing.T) {
			cmd := program(t, []string{c.env}, append([]string{"generate", "--max-tokens", "2"}, strings.Fields(c.args)...)...)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			require.NoError(t, err, &stderr)
			require.NotEmpty(t, out)
			require.Contains(t, stderr.String(), c.want)
			require.Equal(t, 1, strings.Count(stderr.String(), "variable is ignored"))
		})
	}
	require.NoDirExists(t, filepath.Join(dir, "d"))
}

// Doctor says that tiers choose the layout, and why a device whose memory is the host's has none of host memory.
func TestDoctorTiers(t *testing.T) {
	r := succeeds(t, "doctor", "--host-bytes", "64MiB")
	require.Regexp(t, `layout +paged +tiers +FERRUM_METAL_PAGED_KV\n`, r.stdout)
	require.Regexp(t, `host memory +67108864 +option +FERRUM_KV_HOST_BYTES\n`, r.stdout)
	require.NotContains(t, r.stdout, "host tier")
	dir := t.TempDir()
	for _, c := range []struct{ env, args, want string }{
		{"FERRUM_KV_DISK_DIR=" + dir, "", `layout +paged +tiers `},
		{"FERRUM_KV_DISK_DIR=" + dir, "--layers 2", `disk +` + dir + ` +environment +FERRUM_KV_DISK_DIR\n`},
		{"FERRUM_KV_DISK_DIR=" + dir, "--layout paged", `layout +paged +option `},
		{"FERRUM_KV_DISK_DIR=" + dir, "--layout contiguous", `ignored +` + dir + `: tiers need the paged layout.* FERRUM_KV_DISK_DIR
`},
	} {
		out, err := program(t, []string{c.env}, append([]string{"doctor"}, strings.Fields(c.args)...)...).Output()
		require.NoError(t, err)
		require.Regexp(t, c.want, string(out))
	}
	fails(t, []string{"doctor", "--host-bytes", "1MiB", "--layout", "contiguous"}, "--layout contiguous: tiers (--host-bytes) need the paged layout")
	fails(t, []string{"doctor", "--host-bytes", "1MiB", "--config", "x.json"}, "--host-bytes cannot be used with --config")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries, "nothing was opened")

	var be shared
	be.anyBackend, err = backend.Open("cpu")
	require.NoError(t, err)
	defer be.Close()
	given := func(string) bool { return false }
	for host, problems := range map[string]int{"": 0, "1MiB": 1} {
		var s cacheStatus
		all, err := s.configure(given, doctorFlags{tiers: tierFlags{hostBytes: host}}, be)
		require.NoError(t, err)
		require.Len(t, all, problems)
		var w strings.Builder
		s.write(&w)
		require.Contains(t, w.String(), "\n  host tier        none: the device's memory is the host's: ")
		if problems > 0 {
			require.ErrorContains(t, all[0], "no tier of host memory on metal:0: ")
		}
	}
}

// shared is a device whose memory is the host's.
type shared struct{ anyBackend }

func (s shared) Info() backend.Info {
	info := s.anyBackend.Info()
	info.Name, info.Kernels = "metal:0", ""
	return info
}
