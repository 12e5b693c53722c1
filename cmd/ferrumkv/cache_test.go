package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/stretchr/testify/require"
)

// leave is a directory with the blocks of one model in three formats, which were last used 1, 2 and 3 hours ago.
func leave(t *testing.T) (dir string, folders []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "disk")
	for i, dtype := range []string{"f16", "int8", "f32"} {
		succeeds(t, "generate", "--disk", dir, "--disk-bytes", "2MiB", "--kv-dtype", dtype, "-n", "2", "-p", lily)
		all, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.Len(t, all, i+1)
		for _, folder := range all {
			if !strings.Contains(strings.Join(folders, " "), folder) {
				folders = append(folders, folder)
			}
		}
		used(t, folders[i], time.Duration(i+1)*time.Hour)
	}
	return dir, folders
}

// used makes a folder one that was last used some time ago.
func used(t *testing.T, folder string, ago time.Duration) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	for _, file := range files {
		at := time.Now().Add(-ago)
		require.NoError(t, os.Chtimes(file, at, at))
	}
}

func TestCacheList(t *testing.T) {
	dir, folders := leave(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "0123456789abcdef-0"), 0o700), "a folder with a name like ours")
	r := succeeds(t, "cache", "list", "--disk", dir)
	require.Regexp(t, `^folder               model        layers  format                         blocks      bytes  last use
`+filepath.Base(folders[2])+`   [0-9a-f]{12}      4  K f32, V f32, blocks of 16 +3 +\d\.\d MiB  20\d\d-\d\d-\d\d \d\d:\d\d
`+filepath.Base(folders[1])+`   [0-9a-f]{12}      4  K int8, V int8, blocks of 16 +3 +\d\.\d MiB  20\d\d-\d\d-\d\d \d\d:\d\d
`+filepath.Base(folders[0])+`   [0-9a-f]{12}      4  K f16, V f16, blocks of 16 +3 +\d\.\d MiB  20\d\d-\d\d-\d\d \d\d:\d\d
\d\.\d MiB in 3 folders
$`, r.stdout)

	require.Equal(t, r.stdout, succeeds(t, "inspect", dir).stdout)
	require.Regexp(t, `(?s)K f32.*in 1 folder\n$`, succeeds(t, "inspect", folders[2]).stdout)
	fails(t, []string{"inspect", dir, "--verify"}, "whose blocks are verified when they are read")

	list := jsonLines(t, succeeds(t, "cache", "list", "--disk", dir, "--json").stdout)[0]
	var total float64
	for i, c := range list["caches"].([]any) {
		c := c.(map[string]any)
		require.Equal(t, filepath.Base(folders[2-i]), c["folder"])
		require.Equal(t, []any{3., false}, []any{c["blocks"], c["open"]})
		total += c["bytes"].(float64)
	}
	require.Equal(t, []any{dir, total}, []any{list["dir"], list["bytes"]})
	require.Zero(t, inProcess("cache", "list", "--disk", t.TempDir()).code)
}

// Blocks are counted as the tier itself counts them, also where some were removed; those of a sealed one are not known.
func TestCacheCountsBlocks(t *testing.T) {
	dir := t.TempDir()
	for i, secret := range [][]byte{nil, make([]byte, 32)} {
		n := disk.Namespace{Fingerprint: tier.Key{byte(i)}}
		in, err := disk.Open(disk.Options{Dir: disk.Path(dir, n), Namespace: n, Payload: 5000, Bytes: 1 << 20, Secret: secret})
		require.NoError(t, err)
		var blocks []tier.Block
		for k := range byte(7) {
			bytes := make([]byte, 5000)
			blocks = append(blocks, tier.Block{Key: tier.Key{1, k}, Bytes: bytes})
		}
		require.NoError(t, in.Put(t.Context(), blocks))
		require.NoError(t, in.Delete(t.Context(), []tier.Key{{1, 2}, {1, 6}}))
		stats := in.Stats()
		require.EqualValues(t, 5, stats.Blocks)

		c, ok := readDiskCache(disk.Path(dir, n))
		require.True(t, ok)
		require.True(t, c.Open, "by this process")
		require.NoError(t, in.Close())
		c, _ = readDiskCache(disk.Path(dir, n))
		require.False(t, c.Open)
		require.Equal(t, []int{5, -1}[i], c.Blocks)

		lock := filepath.Join(disk.Path(dir, n), "lock")
		require.NoError(t, os.Remove(lock)) // as in a copy of the others
		c, _ = readDiskCache(disk.Path(dir, n))
		require.False(t, c.Open)
		require.NoFileExists(t, lock, "it was looked at only")
	}
	require.Contains(t, succeeds(t, "cache", "list", "--disk", dir).stdout, " sealed ")
}

func TestCacheClear(t *testing.T) {
	dir, folders := leave(t)
	there := func(want ...bool) {
		t.Helper()
		for i, folder := range folders {
			_, err := os.Stat(folder)
			require.Equal(t, want[i], err == nil, "%d", i)
		}
	}
	clear := func(args ...string) string {
		t.Helper()
		return succeeds(t, append([]string{"cache", "clear", "--disk", dir}, args...)...).stdout
	}
	require.Regexp(t, `^removed 0 folders, 0 B; \d\.\d MiB left\n$`, clear("--keep", "1GiB", "--unused", "4h"))
	there(true, true, true)
	require.Regexp(t, `^removed 1 folder, 1\.\d MiB; \d\.\d MiB left\n$`, clear("--unused", "0.1d"))
	there(true, true, false)
	require.Regexp(t, `^removed 1 folder, \d\.\d MiB; \d\.\d MiB left\n$`, clear("--keep", "3MiB"))
	there(true, false, false)
	require.Regexp(t, `^removed 1 folder, \d\.\d MiB; 0 B left\n$`, clear())
	there(false, false, false)
	require.Equal(t, "removed 0 folders, 0 B; 0 B left\n", clear())
}

// Nothing of others is removed, and nothing that is open.
func TestCacheClearLeavesOthers(t *testing.T) {
	dir, folders := leave(t)
	other := filepath.Join(folders[0], "notes.txt")
	require.NoError(t, os.WriteFile(other, []byte("mine"), 0o600))
	mine := filepath.Join(dir, "mine.txt")
	require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o600))
	like := filepath.Join(dir, "0123456789abcdef-0")
	require.NoError(t, os.Mkdir(like, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(like, "meta.json"), []byte(`{"format":"other"}`), 0o600))
	target := t.TempDir()
	if runtime.GOOS != "windows" {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, "fedcba9876543210-0")))
	}

	n := disk.Namespace{Fingerprint: tier.Key{9}}
	in, err := disk.Open(disk.Options{Dir: disk.Path(dir, n), Namespace: n, Payload: 5000, Bytes: 1 << 20})
	require.NoError(t, err)
	r := fails(t, []string{"cache", "clear", "--disk", dir}, folders[0]+": has files of others, such as notes.txt, and stays with them", "; 1 folder stayed, which another process has open; end that, and try again")
	require.Regexp(t, `^removed 2 folders, `, r.stdout)
	require.NoError(t, in.Close())
	for _, file := range []string{other, mine, filepath.Join(like, "meta.json"), filepath.Join(disk.Path(dir, n), "data")} {
		require.FileExists(t, file)
	}
	require.DirExists(t, target)
}

// What is removed beside a file of others counts: no more than asked is removed elsewhere.
func TestCacheKeepCountsWhatIsRemoved(t *testing.T) {
	dir, folders := leave(t)
	other := filepath.Join(folders[2], "notes.txt")
	require.NoError(t, os.WriteFile(other, []byte("mine"), 0o600))
	caches, err := diskCaches(dir)
	require.NoError(t, err)
	require.Equal(t, folders[2], caches[0].path)
	keep := bytesOf(caches[1:])
	r := fails(t, []string{"cache", "clear", "--disk", dir, "--keep", fmt.Sprint(keep)}, "has files of others, such as notes.txt")
	require.Equal(t, fmt.Sprintf("removed 0 folders, %s; %s left\n", byteSize(caches[0].Bytes), byteSize(keep)), r.stdout)
	require.FileExists(t, other)
	left, err := diskCaches(dir)
	require.NoError(t, err)
	require.Len(t, left, 2)
	require.Equal(t, keep, bytesOf(left))
}

func TestCacheBadFlags(t *testing.T) {
	dir, folders := leave(t)
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, "meta.json"), []byte("{}"), 0o600))
	for args, want := range map[string]string{
		"list":                             "no directory; name one with --disk, or set FERRUM_KV_DISK_DIR\n",
		"clear":                            "no directory; name one with --disk",
		"list --disk no/such":              "--disk: open no/such: ",
		"clear --disk " + home:             "--disk " + home + ": has files, and none that --disk wrote\n",
		"clear --disk " + folders[0]:       "--disk " + folders[0] + ": has the blocks of one model; name the directory that it is in\n",
		"clear --keep x --disk " + dir:     "--keep x: accepts bytes such as 1048576, 20GiB",
		"clear --unused x --disk " + dir:   "--unused x: accepts a time such as 30d or 12h",
		"clear --unused -1h --disk " + dir: "--unused -1h0m0s: need a time from 0 on",
		"lst":                              `unknown command "lst" (did you mean list?); see 'ferrumkv cache --help'`,
	} {
		fails(t, append([]string{"cache"}, strings.Fields(args)...), want)
	}
	for _, folder := range folders {
		require.DirExists(t, folder)
	}
	cmd := program(t, []string{"FERRUM_KV_DISK_DIR=" + dir}, "cache", "list")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "in 3 folders\n")
}
