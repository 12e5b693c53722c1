package states

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// contents is what a directory has, by path.
func contents(t *testing.T, dir string) map[string]string {
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		require.NoError(t, err)
		if e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			out[path] = string(b)
		}
		return nil
	}))
	return out
}

// A directory of another format or version, or that is sealed otherwise, is refused by name, and is as it was.
func TestRefusesOthers(t *testing.T) {
	for name, c := range map[string]struct {
		field, text  string
		made, opened Options
		change       func(*meta)
	}{
		"a newer version": {"version", "version 3", Options{}, Options{}, func(m *meta) { m.Version = 3 }},
		"an older one":    {"version", "version 1", Options{}, Options{}, func(m *meta) { m.Version = 1 }},
		"another format":  {"format", "kvstore", Options{}, Options{}, func(m *meta) { m.Format = "kvstore" }},
		"another secret":  {"Secret", "another secret", Options{Secret: secret}, Options{Secret: bytes.Repeat([]byte{8}, 32)}, nil},
		"no secret":       {"Secret", "is sealed", Options{Secret: secret}, Options{}, nil},
		"a secret":        {"Secret", "in the clear", Options{}, Options{Secret: secret}, nil},
		"a forged seal":   {"Secret", "another secret", Options{}, Options{Secret: secret}, func(m *meta) { m.Sealed = true }},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir()+"/d", c.made)
			put(t, s, numbered(1), noise(1, 1000))
			require.NoError(t, s.Close())
			if c.change != nil {
				path := filepath.Join(s.dir, metaName)
				b, err := os.ReadFile(path)
				require.NoError(t, err)
				m, err := readMeta(b)
				require.NoError(t, err)
				c.change(&m)
				b, err = json.Marshal(m)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, b, 0o600))
			}
			before := contents(t, s.dir)
			c.opened.disk = &quick
			_, err := Open(s.dir, c.opened)
			require.ErrorIs(t, err, ErrConfig{})
			require.Equal(t, c.field, err.(ErrConfig).Field)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, before, contents(t, s.dir))
		})
	}
}

// A folder that has something else, and a meta.json that is none, are refused and left alone.
func TestRefusesOtherFolders(t *testing.T) {
	for name, text := range map[string]string{"thesis.txt": "my", metaName: "{", "states": ""} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		before := contents(t, dir)
		for _, o := range []Options{{}, {Bytes: 1}, {Secret: secret}} {
			o.disk, o.Network = &quick, true
			_, err := Open(dir, o)
			require.ErrorIs(t, err, ErrConfig{}, name)
			require.Equal(t, before, contents(t, dir), "not even a lock")
		}
	}
	long := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(long, metaName), make([]byte, metaLargest+1), 0o600))
	_, err := Open(long, Options{disk: &quick, Network: true})
	require.ErrorIs(t, err, ErrConfig{})
	dir := t.TempDir() + "/d" // what a crash leaves of the first Open
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "meta.json.1.new"), []byte("{"), 0o600))
	requireTidy(t, open(t, dir, Options{}))
}

// A directory that others may write to, at its top or below, is refused.
func TestRefusesModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing there")
	}
	for _, name := range []string{".", "states", "packs"} {
		for _, mode := range []os.FileMode{0o777, 0o770, 0o702} {
			s := open(t, t.TempDir()+"/d", Options{})
			require.NoError(t, s.Close())
			require.NoError(t, os.Chmod(filepath.Join(s.dir, name), mode))
			_, err := Open(s.dir, Options{disk: &quick})
			require.ErrorIs(t, err, ErrConfig{}, "%s with %v", name, mode)
			require.ErrorContains(t, err, "chmod 700")
		}
	}
	for _, name := range []string{metaName, "lock"} {
		s := open(t, t.TempDir()+"/d", Options{})
		require.NoError(t, s.Close())
		require.NoError(t, os.Chmod(filepath.Join(s.dir, name), 0o666))
		_, err := Open(s.dir, Options{disk: &quick})
		require.ErrorIs(t, err, ErrConfig{}, name)
	}
}

// forged is a record whose sum is right.
func forged(magic string, body []byte) []byte {
	b := append([]byte(magic), schema, 0, 0, 0)
	b = append(b, body...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// A manifest of few bytes asks for no more memory than they say there may be, whatever they say.
func TestForgedManifest(t *testing.T) {
	k := Key{Identity: llama}
	head := append(k.append(nil), make([]byte, 24)...)
	many := bytes.Repeat([]byte{0xff}, 9)
	for name, body := range map[string][]byte{
		"tokens":             append(k.append(nil)[:len(k.append(nil))-1], append(many, 1)...),
		"parts":              append(head, append(many, 1)...),
		"chunks":             append(append(head, 1, 0), append(many, 1)...),
		"a long name":        append(append(head, 1), append(many, 1)...),
		"a large chunk":      append(append(append(head, 1, 0, 1), make([]byte, 32)...), 0xff, 0xff, 0xff, 0xff),
		"an empty one":       append(append(append(head, 1, 0, 1), make([]byte, 32)...), 0, 0, 0, 0),
		"something after it": append(head, 0, 1), "flags": append(k.append(nil), bytes.Repeat([]byte{2}, 25)...),
		"parts without end": append(append(head, 0x80, 0x10), make([]byte, 4096)...),
	} {
		allocated := testing.AllocsPerRun(1, func() {
			_, err := decodeManifest(forged(manifestMagic, body), namer{}.id(&k), nil, namer{}, small.max)
			require.Error(t, err, name)
		})
		require.Less(t, allocated, 3000.0, name)
	}
	st, err := decodeManifest(forged(manifestMagic, append(head, 0)), namer{}.id(&k), nil, namer{}, small.max)
	require.NoError(t, err)
	require.Equal(t, k, st.Key)

	// Chunks that are there once and said to be many are no more than a state may have.
	s := open(t, t.TempDir()+"/d", Options{Bytes: 1 << 20})
	put(t, s, numbered(1), make([]byte, small.max))
	var c chunk
	for _, st := range s.states {
		c = st.chunks[0][0]
	}
	body := append(head, 1, 0)
	body = append(body, 0x81, 0x10) // 2049 chunks of 1 KiB
	for range 2049 {
		body = le.AppendUint32(append(body, c.Sum[:]...), uint32(c.Bytes))
	}
	path := s.manifestPath(namer{}.id(&k))
	require.NoError(t, os.WriteFile(path, forged(manifestMagic, body), 0o600))
	s = reopen(t, s, Options{Bytes: 1 << 20})
	require.Equal(t, 1, s.Stats().States)
	require.Equal(t, uint64(1), s.Stats().Evicted)
	require.NoFileExists(t, path)
}

// Nothing of a sealed store tells what was said, nor whether something was: the same state has other names under another secret.
func TestSealedTellsNothing(t *testing.T) {
	text := strings.Repeat("what was said, and by whom; ", 40)
	k := Key{Identity: Identity{Model: "the model", Salt: "the salt"}, Name: "the name", Tokens: []uint32{0x61616161, 0x61616161}}
	seen := map[string]bool{}
	for _, secret := range [][]byte{secret, bytes.Repeat([]byte{9}, 32)} {
		s := open(t, t.TempDir()+"/d", Options{Secret: secret})
		put(t, s, k, []byte(text))
		for path, b := range contents(t, s.dir) {
			for _, said := range []string{"what was said", "the model", "the salt", "the name", "aaaa", "target"} {
				require.NotContains(t, b, said, path)
			}
			name := filepath.Base(path)
			require.False(t, isSum(name) && seen[name])
			seen[name] = true
		}
	}
}
