//go:build linux

package conventions

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const script = "../../scripts/run-gpu-pack"

// packages are those of the programs of a bundle.
var packages = map[string]string{"backend-cuda": "backend/cuda", "backend-cuda-driver": "backend/cuda/driver", "kvcache": "kvcache",
	"kvcache-evictor": "kvcache/evictor", "cmd-internal-runner": "cmd/internal/runner", "cmd-ferrumkv": "cmd/ferrumkv"}

var (
	testNames = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	asked     = regexp.MustCompile(`(?m)^\t+tests \S+ \S+ (\S+) '?([^'\s]+)'?|bundle-cuda/([\w-]+)\.test .*-test\.run '([^']+)'`)
	roomNames = regexp.MustCompile(`(?m)^\t\t\{"([a-z -]+)", \w+Checks|t\.Run\("(erased)"`)
)

// Every test that the script names is there: a pattern that matches nothing passes.
func TestScriptNamesTests(t *testing.T) {
	text, err := os.ReadFile(script)
	require.NoError(t, err)
	suite, err := os.ReadFile("../../backend/backendtest/suite.go")
	require.NoError(t, err)
	var rooms []string
	for _, m := range roomNames.FindAllStringSubmatch(string(suite), -1) {
		rooms = append(rooms, strings.ReplaceAll(m[1]+m[2], " ", "_"))
	}
	require.Contains(t, rooms, "block_sets")
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	found := asked.FindAllStringSubmatch(joined, -1)
	require.Greater(t, len(found), 12)
	for _, m := range found {
		program, pattern := m[1]+m[3], m[2]+m[4]
		if pattern == "^$" {
			continue // of benchmarks
		}
		require.Contains(t, packages, program)
		files, err := filepath.Glob(filepath.Join("../..", packages[program], "*_test.go"))
		require.NoError(t, err)
		var names []string
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range testNames.FindAllStringSubmatch(string(source), -1) {
				names = append(names, m[1])
			}
		}
		top, room, sub := strings.Cut(pattern, "/")
		for _, part := range alternatives(top) {
			require.True(t, matches(part, names), "%s: no test matches %s of %s", program, part, pattern)
		}
		if sub {
			for _, part := range alternatives(room) {
				require.True(t, matches(part, rooms), "no room matches %s of %s", part, pattern)
			}
		}
	}
	require.False(t, matches("^(TestNone)$", []string{"TestNon", "TestNoneSuch"}))
}

// Every shape whose counters are read is a benchmark: its parts begin the name of one.
func TestScriptNamesBenchmarks(t *testing.T) {
	text, err := os.ReadFile(script)
	require.NoError(t, err)
	figures, err := os.ReadFile("../../docs/benchmarks/cuda.txt")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?:prefill|latent|decode)/[^\s;]+`).FindAllString(string(text), -1)
	require.Len(t, found, 4)
	for _, shape := range found {
		require.Regexp(t, `(?m)^BenchmarkKernels/`+regexp.QuoteMeta(shape)+`[/ -]`, string(figures))
	}
}

// alternatives are the patterns of which one has to match: ^(a|b)$ is ^(a)$ and ^(b)$.
func alternatives(pattern string) (out []string) {
	before, rest, ok := strings.Cut(pattern, "(")
	inner, after, closed := strings.Cut(rest, ")")
	if !ok || !closed {
		return strings.Split(pattern, "|")
	}
	for _, part := range strings.Split(inner, "|") {
		out = append(out, before+"("+part+")"+after)
	}
	return out
}

func matches(pattern string, names []string) bool {
	re := regexp.MustCompile(pattern)
	for _, name := range names {
		if re.MatchString(name) {
			return true
		}
	}
	return false
}

// machine is a folder with a pack whose programs are scripts, and where PATH has what a system has and no tools of CUDA.
type machine struct {
	t      *testing.T
	folder string
	env    []string
}

// stub says in a file how it was called, and does what a line of programs says.
const stub = `#!/bin/sh
echo "${0##*/} $* kernels=$FERRUM_TEST_KERNELS without=${FERRUM_PACK_WITHOUT:-} ptx=${CUDA_FORCE_PTX_JIT:-} pack=${FERRUM_PACK##*/}" >>"$CALLS"
case "$*" in
*"${SKIPS:-no such}"*) echo PASS; exit 0 ;;
*TestDescriptors*) [ -z "${DESCRIPTORS:-}" ] || exit 1 ;;
*TestPack*) [ -n "${BROKEN:-}" ] || { echo '{}' >"$RESULTS/results.json"; printf "${CHOSEN-variants/fast\n}" >"$RESULTS/chosen"; } ;;
*"${HANGS:-no such}"*) exec sleep 60 ;;
*"${FAILS:-no such}"*) echo "--- FAIL: TestPlanted"; exit 1 ;;
esac
echo "--- PASS: TestPlanted"
`

func newMachine(t *testing.T, tools ...string) *machine {
	m := &machine{t: t, folder: t.TempDir()}
	bin := filepath.Join(m.folder, "bin")
	bundle := filepath.Join(m.folder, "bundle-cuda")
	require.NoError(t, os.Mkdir(bin, 0o755))
	require.NoError(t, os.Mkdir(bundle, 0o755))
	for _, tool := range []string{"sh", "date", "mkdir", "dirname", "timeout", "env", "cat", "grep", "head", "tail", "wc", "mv", "rm", "sed", "cut", "tr", "sleep"} {
		path, err := exec.LookPath(tool)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(bin, tool)))
	}
	write := func(path string) { require.NoError(t, os.WriteFile(path, []byte(stub), 0o755)) }
	for program := range packages {
		write(filepath.Join(bundle, program+".test"))
	}
	write(filepath.Join(bundle, "ferrumkv"))
	write(filepath.Join(bundle, "run"))
	for _, tool := range tools {
		write(filepath.Join(bin, tool))
	}
	text, err := os.ReadFile(script)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(m.folder, "run"), text, 0o755))
	m.env = []string{"PATH=" + bin, "CALLS=" + filepath.Join(m.folder, "calls")}
	return m
}

// run runs one of the calls, and returns what it printed and how programs were called.
func (m *machine) run(call string, env ...string) (out, calls string, err error) {
	_ = os.Remove(filepath.Join(m.folder, "calls"))
	cmd := exec.Command("/bin/sh", filepath.Join(m.folder, "run"), call)
	cmd.Env = append(m.env, env...)
	said, err := cmd.CombinedOutput()
	called, _ := os.ReadFile(filepath.Join(m.folder, "calls"))
	return string(said), string(called), err
}

func TestScriptCalls(t *testing.T) {
	m := newMachine(t)
	out, calls, err := m.run("1")
	require.NoError(t, err, out)
	for _, tool := range []string{"nvidia-smi is not installed", "ncu is not installed", "python3 is not installed"} {
		require.Contains(t, out, tool)
	}
	require.Regexp(t, `(?s)ferrumkv doctor.*TestDescriptors.*Kernels/\^limit\$ .* pack=pack.json\n.*TestPack\$.* without= `, calls)
	require.Contains(t, out, "call 1 is done")

	out, calls, err = m.run("2")
	require.NoError(t, err, out)
	require.Contains(t, calls, "^erased$ kernels="+m.folder+"/variants/fast ")
	require.Contains(t, calls, "^attend$ kernels= without= ptx=1 pack=pack.json\n")
	require.Regexp(t, `TestConformance\$ kernels=\S+/variants/fast without= ptx= pack=pack.json\n`, calls)
	require.Less(t, strings.Index(calls, "latent"), strings.Index(calls, "TestFixedSteps"), "what was never run comes first")

	out, calls, err = m.run("3")
	require.NoError(t, err, out)
	require.Contains(t, out, "compute-sanitizer is not installed")
	require.Regexp(t, "run bench sdpa kernels="+regexp.QuoteMeta(m.folder)+"/variants/fast .* pack=pack.json\n", calls)
}

// With all tools each is asked, and two variants are chosen.
func TestScriptWithTools(t *testing.T) {
	m := newMachine(t, "nvidia-smi", "ncu", "python3", "compute-sanitizer")
	out, calls, err := m.run("1", `CHOSEN=variants/a\nvariants/b\n`)
	require.NoError(t, err, out)
	require.Regexp(t, `(?s)TestPack.*measure-sdpa\.py.*ncu .*kernels=`+regexp.QuoteMeta(m.folder+"/variants/a:"+m.folder+"/variants/b ")+`.*ncu .*kernels= `, calls)
	out, calls, err = m.run("3", "MAXWORK=77")
	require.NoError(t, err, out)
	require.Regexp(t, `(?s)memcheck.*synccheck.*racecheck.*bench sdpa`, calls)
}

// Whatever fails, the calls after it are made, with the kernels that are embedded.
func TestScriptGoesOn(t *testing.T) {
	m := newMachine(t)
	out, calls, err := m.run("2")
	require.NoError(t, err, "call 1 was not made: %s", out)
	require.Contains(t, out, "with what is embedded\n")
	require.Contains(t, calls, "^erased$ kernels= ")

	out, calls, err = m.run("1", "DESCRIPTORS=1", "CHOSEN=")
	require.Error(t, err)
	require.Regexp(t, `Kernels/\^limit\$ .* pack=\n`, calls, "the probes are products, too")
	require.NotRegexp(t, `Kernels/\^limit\$ .* pack=pack.json`, calls)
	require.Regexp(t, `TestPack\$ kernels= without=sm_90a .* pack=pack.json`, calls)
	require.Contains(t, out, "failed: descriptors\n")
	_, calls, err = m.run("3")
	require.NoError(t, err)
	require.Regexp(t, `run bench sdpa .* pack=\n`, calls)

	_, calls, err = m.run("1", "FAILS=Kernels/^limit$")
	require.Error(t, err)
	require.Regexp(t, `(?s)Kernels/\^limit\$ .* pack=pack.json\n.*Kernels/\^limit\$ .* pack=\n.*TestPack\$ kernels= without= `, calls)

	out, _, err = m.run("1", "SKIPS=TestDescriptors")
	require.Error(t, err, "what was skipped proves nothing")
	require.Contains(t, out, "FAIL  descriptors: every test was skipped")

	out, _, err = m.run("1", "BROKEN=1")
	require.Error(t, err)
	require.Contains(t, out, "failed: results.json chosen\n")

	out, calls, err = m.run("2", "FAILS=TestFixedSteps")
	require.Error(t, err)
	require.Contains(t, out, "--- FAIL: TestPlanted")
	require.Contains(t, out, "failed: steps\n")
	require.Contains(t, calls, "Demo", "the others run")

	out, _, err = m.run("2", "LIMIT=13", "HANGS=TestConformance")
	require.NoError(t, err, "time is no error: %s", out)
	require.Contains(t, out, "cut   blocksets, after ")
	require.Contains(t, out, "skip  suite: no time left")
	require.Error(t, exec.Command("/bin/sh", script).Run())
}
