package states

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// What kronk#807 says that a store of sessions on disk lacks, one by one. Each has tests of its own that go further, which are named here.
func TestWishesOfKronk807(t *testing.T) {
	c := newClock()
	o := Options{now: c.now}
	s := open(t, t.TempDir()+"/d", o)
	k := Key{Identity: llama, Name: "session 7", Tokens: tokens(1, 50)}
	target, draft, checkpoint := noise(1, 3000), noise(2, 2000), noise(3, 1000)

	t.Run("target, draft and checkpoint as one generation", func(t *testing.T) { // TestPutAndGet, TestKilledAtEachChange
		info := put(t, s, k, target, draft, checkpoint)
		requireState(t, s, info.ID, target, draft, checkpoint)
	})
	t.Run("identity", func(t *testing.T) { // TestNearestOfFifty, TestKeysDiffer
		info, n, err := s.Nearest(llama, append(tokens(1, 50), 7))
		require.NoError(t, err)
		require.Equal(t, k, info.Key)
		require.Equal(t, 50, n)
	})
	t.Run("model compatibility", func(t *testing.T) { // TestMissNamesField
		other := k
		other.Model = "another"
		_, err := s.Find(other)
		require.Equal(t, ErrMiss{"model", "abc", "another"}, err)
	})
	t.Run("atomic commit", func(t *testing.T) { // TestFullDisk, TestReaders
		full := quick
		full.write = func(f *os.File, b []byte) error {
			if filepath.Base(filepath.Dir(f.Name())) == "states" {
				return errDisk
			}
			return writeFile(f, b)
		}
		s.o.disk = &full
		_, err := s.Put(ctx, k, PutOptions{}, sources([][]byte{draft, target})...)
		require.ErrorIs(t, err, errDisk)
		s.o.disk = &quick
		info, err := s.Find(k)
		require.NoError(t, err)
		requireState(t, s, info.ID, target, draft, checkpoint)
		requireTidy(t, s)
	})
	t.Run("recovery", func(t *testing.T) { // TestKilled, TestDamagedBetween, TestForeignFiles
		require.NoError(t, os.WriteFile(s.manifestPath(ID{1})+".0"+unfinished, make([]byte, 50), 0o600))
		s = reopen(t, s, o)
		info, err := s.Find(k)
		require.NoError(t, err)
		requireState(t, s, info.ID, target, draft, checkpoint)
		requireTidy(t, s)
	})
	t.Run("checksum", func(t *testing.T) { // TestDamagedChunk, TestDamagedManifest, FuzzChunk
		info, err := s.Find(k)
		require.NoError(t, err)
		flip(t, s, s.states[info.ID].chunks[1][0].Sum)
		_, err = s.Get(ctx, info.ID, nil)
		require.ErrorIs(t, err, ErrDamaged{})
		_, err = s.Get(ctx, info.ID, nil)
		require.ErrorIs(t, err, ErrMiss{})
	})
	t.Run("retention", func(t *testing.T) { // TestBudget, TestFloor, TestLifetime
		_, err := s.Put(ctx, k, PutOptions{TTL: time.Hour}, sources([][]byte{target})...)
		require.NoError(t, err)
		c.sleep(time.Hour)
		_, err = s.Find(k)
		require.ErrorIs(t, err, ErrMiss{})
		require.Zero(t, s.Stats().Bytes)
	})
	t.Run("locks", func(t *testing.T) { // TestKilled, TestTogether
		_, err := Open(s.dir, Options{disk: &quick, Network: true})
		require.Equal(t, ErrInUse{s.dir}, err)
		require.ErrorIs(t, err, ErrInUse{})
	})
	t.Run("schema version", func(t *testing.T) { // TestRefusesOthers
		require.NoError(t, s.Close())
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, metaName), []byte(`{"format":"ferrumkv states","version":7}`), 0o600))
		_, err := Open(s.dir, Options{disk: &quick, Network: true})
		require.ErrorContains(t, err, "version 7")
	})
}

// What it says of its own example of a store in files, besides: each is as it should be here.
func TestLimitsOfKronk807(t *testing.T) {
	dir, o := t.TempDir()+"/d", Options{Bytes: 64 << 20, Floor: 1, Network: true}
	s, err := Open(dir, o)
	require.NoError(t, err)
	k := Key{Identity: llama, Name: "session 7", Tokens: tokens(1, 50)}
	info := put(t, s, k, noise(1, 3000), noise(2, 2000))
	other := put(t, s, Key{Identity: llama, Name: "session 8", Tokens: tokens(2, 50)}, noise(3, 3000))
	require.NoError(t, s.Close())

	t.Run("files stay after Close", func(t *testing.T) {
		s, err = Open(dir, o)
		require.NoError(t, err)
		requireState(t, s, info.ID, noise(1, 3000), noise(2, 2000))
	})
	t.Run("an identity that stays", func(t *testing.T) {
		found, err := s.Find(k)
		require.NoError(t, err)
		require.Equal(t, info.ID, found.ID)
	})
	t.Run("a history of the conversation", func(t *testing.T) {
		found, n, err := s.Nearest(llama, append(tokens(1, 40), 7))
		require.NoError(t, err)
		require.Equal(t, 40, n)
		require.Equal(t, k, found.Key)
	})
	t.Run("an index that is rebuilt at the start", func(t *testing.T) {
		list, err := s.List()
		require.NoError(t, err)
		var ids []ID
		for _, info := range list {
			ids = append(ids, info.ID)
		}
		require.ElementsMatch(t, []ID{info.ID, other.ID}, ids)
	})
	t.Run("configuration compatibility", func(t *testing.T) {
		quantized := llama
		quantized.Settings = "K q8_0"
		_, _, err := s.Nearest(quantized, tokens(1, 50))
		require.Equal(t, ErrMiss{"settings", llama.Settings, "K q8_0"}, err)
	})
	t.Run("failures of I/O are errors", func(t *testing.T) { // TestFailures, TestUnreadable
		_, err := s.Put(ctx, k, PutOptions{}, Source{"target", iotest.ErrReader(errDisk)})
		require.ErrorIs(t, err, errDisk)
		requireState(t, s, info.ID, noise(1, 3000), noise(2, 2000))
	})
	t.Run("no memory of a state's size is kept", func(t *testing.T) {
		const size = 16 << 20
		heap := func() uint64 {
			runtime.GC()
			runtime.GC() // twice, for what pools have
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		large, err := s.Put(ctx, Key{Identity: llama, Name: "large"}, PutOptions{}, Source{"target", io.LimitReader(rand.NewChaCha8([32]byte{}), size)})
		require.NoError(t, err)
		_, err = s.Get(ctx, large.ID, nil)
		require.NoError(t, err)
		require.Less(t, heap(), before+size/4)
	})
	t.Run("deletion", func(t *testing.T) { // TestPutAndGet, TestRandomCalls
		require.NoError(t, s.Delete(info.ID))
		_, err := s.Find(k)
		require.ErrorIs(t, err, ErrMiss{})
		_, err = s.Clear(llama.Salt)
		require.NoError(t, err)
		require.Zero(t, s.Stats().States)
		require.NoError(t, s.Close())
	})
}
