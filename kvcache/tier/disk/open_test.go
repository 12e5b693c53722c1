package disk

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/crc32c"
	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

func onDisk(dir string) Options {
	o := options(nil, 20)
	o.Dir = dir
	return o
}

// What was put is found by the next one that opens the directory, which one at a time does.
func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	o := onDisk(dir)
	d, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, d.Put(ctx, chainOf(1, 5)))
	_, err = Open(o)
	require.ErrorIs(t, err, ErrInUse{dir})
	require.ErrorIs(t, err, ErrInUse{})
	require.NoError(t, d.Close())
	d, err = Open(o)
	require.NoError(t, err)
	require.Len(t, found(t, d, 5), 5)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
}

// What is for other blocks is refused, and left as it was.
func TestOtherNamespace(t *testing.T) {
	dir := t.TempDir()
	o := onDisk(dir)
	o.Secret = bytes.Repeat([]byte{1}, seal.SecretBytes)
	d, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, d.Put(ctx, chainOf(1, 5)))
	require.NoError(t, d.Close())
	for what, change := range map[string]func(*Options){
		"fingerprint":   func(o *Options) { o.Namespace.Fingerprint[31] ^= 1 },
		"group":         func(o *Options) { o.Namespace.Group++ },
		"payload_bytes": func(o *Options) { o.Payload++ },
		"about":         func(o *Options) { o.Namespace.About = map[string]string{"model": "n"} },
		"encrypted":     func(o *Options) { o.Secret = nil },
		"secret":        func(o *Options) { o.Secret = bytes.Repeat([]byte{2}, seal.SecretBytes) },
	} {
		other := o
		change(&other)
		for range 2 {
			_, err := Open(other)
			require.ErrorAs(t, err, new(tier.ErrConfig), what)
			require.ErrorContains(t, err, what)
		}
		if what != "about" && what != "secret" { // the table says it, too
			m := filepath.Join(dir, "meta.json")
			was, err := os.ReadFile(m)
			require.NoError(t, err)
			require.NoError(t, os.Remove(m))
			_, err = Open(other)
			require.ErrorAs(t, err, new(tier.ErrConfig), what)
			require.NoFileExists(t, m, "the directory is not claimed for other blocks")
			require.NoError(t, os.WriteFile(m, was, 0o600))
		}
	}
	for _, text := range []string{"", "{", "{}", "[]", `{"format":"FKVSLAB1"} 1`, `{"more":1}`, string(make([]byte, 9999))} {
		m := filepath.Join(dir, "meta.json")
		was, err := os.ReadFile(m)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(m, []byte(text), 0o600))
		_, err = Open(o)
		require.ErrorAs(t, err, new(tier.ErrConfig), text)
		require.NoError(t, os.WriteFile(m, was, 0o600))
	}
	d, err = Open(o)
	require.NoError(t, err)
	require.Len(t, found(t, d, 5), 5)
	require.NoError(t, d.Close())
}

// Files that no tier wrote are not overwritten, whatever their names.
func TestFilesOfOthers(t *testing.T) {
	for name, text := range map[string]string{"data": "my data", "table": "my table", "zeros": string(make([]byte, 2*page))} {
		dir := t.TempDir()
		file := filepath.Join(dir, map[string]string{"data": "data"}[name])
		if name != "data" {
			file = filepath.Join(dir, "table")
		}
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		for range 2 {
			_, err := Open(onDisk(dir))
			require.ErrorAs(t, err, new(tier.ErrConfig))
			require.ErrorContains(t, err, "no tier's")
		}
		is, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, text, string(is))
	}
}

func TestOptions(t *testing.T) {
	for what, change := range map[string]func(*Options){
		"directory":    func(o *Options) { o.Dir = "" },
		"payloads":     func(o *Options) { o.Payload = 0 },
		"payloads of":  func(o *Options) { o.Payload = 1 << 31 },
		"group":        func(o *Options) { o.Namespace.Group = -1 },
		"negative":     func(o *Options) { o.Bytes = -1 },
		"admission":    func(o *Options) { o.Admission = "some" },
		"write budget": func(o *Options) { o.WriteBudget = 1 },
		"secret":       func(o *Options) { o.Secret = make([]byte, 16) },
		"network":      func(o *Options) { o.system.(*memoryFS).network = "nfs" },
		"About":        func(o *Options) { o.Namespace.About = map[string]string{"a": string(make([]byte, page))} },
	} {
		o := options(newMemoryFS(), 4)
		change(&o)
		_, err := Open(o)
		require.ErrorAs(t, err, new(tier.ErrConfig), what)
		require.ErrorContains(t, err, what)
		require.Zero(t, o.system.(*memoryFS).open, "files are closed")
	}
	o := options(newMemoryFS(), 4)
	for size, floor := range map[int64]int64{1 << 40: DefaultFloor, 20 * DefaultFloor: DefaultFloor, 20*DefaultFloor - 20: DefaultFloor - 1} {
		o = options(newMemoryFS(), 4)
		o.system.(*memoryFS).network, o.Network = "nfs", true
		o.system.(*memoryFS).size, o.Bytes, o.Floor = size, 0, 0
		d, _, _ := opened(t, o)
		require.Equal(t, [2]int64{size / 10, floor}, [2]int64{d.o.Bytes, d.o.Floor})
	}
	require.Equal(t, filepath.Join("x", "0908070000000000-3"), Path("x", o.Namespace))
}

// Directories and files are their owner's alone, and refused where they are not.
func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing there")
	}
	dir := filepath.Join(t.TempDir(), "new")
	o := onDisk(dir)
	d, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	for _, f := range []string{"meta.json", "table", "data", "lock"} {
		path := filepath.Join(dir, f)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), f)
		for _, mode := range []os.FileMode{0o660, 0o602, 0o604} {
			require.NoError(t, os.Chmod(path, mode))
			_, err := Open(o)
			require.ErrorAs(t, err, new(tier.ErrConfig), "%s %o", f, mode)
		}
		require.NoError(t, os.Chmod(path, 0o600))
	}
	for _, mode := range []os.FileMode{0o770, 0o702, 0o777} {
		require.NoError(t, os.Chmod(dir, mode))
		_, err := Open(o)
		require.ErrorAs(t, err, new(tier.ErrConfig), "%o", mode)
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	d, err = Open(o)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	if os.Geteuid() == 0 { // others cannot give files away
		for _, path := range []string{dir, filepath.Join(dir, "data")} {
			require.NoError(t, os.Chown(path, 12345, -1))
			_, err := Open(o)
			require.ErrorAs(t, err, new(tier.ErrConfig), path)
			require.ErrorContains(t, err, "another user's")
			require.NoError(t, os.Chown(path, 0, -1))
		}
	}
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Open(onDisk(file))
	require.ErrorAs(t, err, new(tier.ErrConfig))
}

// A real directory that is removed is noticed, too.
func TestRemoved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be removed there")
	}
	o := onDisk(filepath.Join(t.TempDir(), "d"))
	o.syncEvery = time.Millisecond
	d, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, d.Put(ctx, chainOf(1, 2)))
	require.NoError(t, os.RemoveAll(o.Dir))
	require.Eventually(t, func() bool {
		_, err := d.Has(ctx, nil)
		return err != nil
	}, 20*time.Second, time.Millisecond)
	require.ErrorIs(t, d.Put(ctx, chainOf(1, 2)), ErrGone{o.Dir})
	require.NoError(t, d.Close())
}

// A parent of its own, which no keys of this project have, does not keep a block from going.
func TestOwnParent(t *testing.T) {
	o := options(newMemoryFS(), 1)
	d, _, _ := opened(t, o)
	require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1, 1)}))
	require.NoError(t, d.Put(ctx, []tier.Block{blockOf(2, 0)}))
	require.Equal(t, map[int]bool{2: true}, found(t, d, 2))
}

// A directory of 100 GB is open in seconds. Its payloads are zeros that take no room.
func TestLarge(t *testing.T) {
	const slots, bytes = 50_000, 2 << 20
	o := Options{Dir: t.TempDir(), Payload: bytes, Bytes: 3*page + slots*(bytes+entryBytes), Floor: 1}
	d, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	c := codec{payload: bytes}
	table, err := os.OpenFile(filepath.Join(o.Dir, "table"), os.O_RDWR, 0)
	require.NoError(t, err)
	all := make([]byte, slots*entryBytes)
	sum := crc32c.Sum(make([]byte, bytes))
	for i := range slots {
		e := entry{key: keyOf(i + 1), length: bytes, sum: (&tier.Block{Key: keyOf(i + 1)}).SummedFrom(sum), generation: 1, use: uint64(i + 1)}
		if i%100 > 0 {
			e.parent = keyOf(i)
		}
		require.NoError(t, c.writeEntry(all[i*entryBytes:][:entryBytes], i, &e))
	}
	_, err = table.WriteAt(all, page)
	require.NoError(t, err)
	require.NoError(t, table.Close())
	if err := os.Truncate(filepath.Join(o.Dir, "data"), slots*bytes); err != nil {
		t.Skip("no file of 100 GB here: ", err)
	}
	began := time.Now()
	d, err = Open(o)
	require.NoError(t, err)
	took := time.Since(began)
	t.Log("open after ", took)
	require.Less(t, took, 30*time.Second) // machines that do much else take longer
	require.Equal(t, int64(slots), d.Stats().Blocks)
	n, err := d.Get(ctx, []tier.Block{{Key: keyOf(slots), Bytes: make([]byte, bytes)}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, d.index.check())
	require.NoError(t, d.Close())
}
