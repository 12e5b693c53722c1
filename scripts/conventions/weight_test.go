package conventions

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/ferrumkv/ferrumkv"

// list is what go list prints of packages on a platform that has all of the CUDA backend.
func list(t *testing.T, args ...string) []string {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("without the go command")
	}
	cmd := exec.Command(goTool, append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=")
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// The bindings of NVIDIA's management library warn, take long to compile and bind late.
// They come only with the program that reads it, which has to be asked for: no package, no command
// and no test that a pattern finds has them.
func TestNobodyCompilesNVML(t *testing.T) {
	const bindings = "github.com/NVIDIA/go-nvml"
	for _, pattern := range []string{module + "/backend/all", module + "/kvcache", module + "/cmd/ferrumkv", module + "/..."} {
		deps := list(t, "-deps", "-test", pattern)
		require.NotEmpty(t, deps)
		for _, path := range deps {
			require.False(t, strings.HasPrefix(path, bindings), "%s needs %s", pattern, path)
		}
	}
	require.Contains(t, list(t, "-deps", module+"/cmd/ferrumkv-nvml"), bindings+"/pkg/nvml", "it is still what doctor's figures come from")
}

// A program that links the library gets few modules with it, and none of them for
// command lines, tests or plots. The compressor's unpacks the CUDA kernels, compresses snapshots for programs that
// import kvcache/snapshot/zstd, and comes with nothing else.
// The conformance suites, which only tests import, bring what tests are written with.
func TestUsersGetFewModules(t *testing.T) {
	const suite, compressor = module + "/kvcache/tier/tiertest", module + "/kvcache/snapshot/zstd"
	rooms := list(t, module+"/kvcache/...")
	require.Contains(t, rooms, suite)
	rooms = slices.DeleteFunc(rooms, func(path string) bool { return path == suite })
	linked := append(rooms, module+"/backend/all", module+"/backend/cpu", module+"/backend/metal")
	modules := map[string]bool{}
	for _, m := range list(t, append([]string{"-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}, linked...)...) {
		modules[m] = true
	}
	require.Equal(t, map[string]bool{module: true, "github.com/go-gl/mathgl": true, "github.com/klauspost/compress": true, "golang.org/x/sys": true}, modules)
	require.NotContains(t, list(t, append([]string{"-deps"}, linked...)...), suite)
	require.Contains(t, rooms, compressor)
	rooms = slices.DeleteFunc(rooms, func(path string) bool { return path == compressor })
	for _, path := range list(t, append([]string{"-deps"}, append(rooms, module+"/backend/cpu", module+"/backend/metal")...)...) {
		require.False(t, strings.HasPrefix(path, "github.com/klauspost/"), path)
	}
}

// The caches of host memory are linked by programs that have no Pool, and pools by those that
// have no such cache: neither brings the other, nor a device.
func TestHostCachesKnowNoPools(t *testing.T) {
	for room, others := range map[string][]string{
		"/kvcache/host": {"/kvcache", "/backend/cpu", "/backend/internal", "/backend/cuda", "/backend/metal", "/kernels"},
		"/kvcache":      {"/kvcache/host", "/kvcache/quant", "/backend/cpu", "/backend/cuda", "/backend/metal"},
	} {
		deps := list(t, "-deps", module+room)
		require.Contains(t, deps, module+"/kvcache/prefix")
		for _, other := range others {
			require.NotContains(t, deps, module+other, room)
		}
	}
}

// Policies of eviction are functions of lengths and scores: no cache and no device comes with
// them, nor any other room.
func TestPoliciesKnowNoCache(t *testing.T) {
	for _, path := range list(t, "-deps", module+"/kvcache/evict") {
		require.True(t, path == module+"/kvcache/evict" || !strings.HasPrefix(path, module), path)
	}
	require.NotContains(t, list(t, "-deps", module+"/kvcache"), module+"/kvcache/evict", "a pool keeps what its caller says")
}

// The workspace has the folders of this repository in place of their modules' versions and changes nothing else of a build.
func TestWorkspaceHasFoldersAlone(t *testing.T) {
	content, err := os.ReadFile("../../go.work")
	require.NoError(t, err)
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(content)), "\n"), func(l string) bool {
		return l == "" || strings.HasPrefix(l, "//")
	})
	require.Equal(t, []string{"go 1.26.0", "use (", "\t.", "\t./cmd", "\t./scripts", ")", "replace (", "\t" + module + " v0.0.0 => ./",
		"\t" + module + "/testdata/model => ./testdata/model", ")"}, lines)
}
