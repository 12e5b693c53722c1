package states

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
)

// What is put is there as it was, part by part, in this process and in the next, until it is replaced or deleted.
func TestPutAndGet(t *testing.T) {
	forVariants(t, func(t *testing.T, o Options) {
		s := open(t, t.TempDir()+"/new/d", o)
		target, draft := bytes.Repeat(noise(1, 500), 40), noise(2, 3000)
		k := Key{Identity: llama, Name: "chat", Tokens: tokens(1, 100)}
		info := put(t, s, k, target, draft, nil)
		require.Equal(t, []PartInfo{{"target", 20_000}, {"draft", 3000}, {"checkpoint", 0}}, info.Parts)
		require.Equal(t, int64(23_000), info.Bytes)
		requireState(t, s, info.ID, target, draft, nil)
		requireTidy(t, s)

		s = reopen(t, s, o)
		found, err := s.Find(k)
		require.NoError(t, err)
		require.Equal(t, info.ID, found.ID)
		require.Equal(t, k, found.Key)
		require.Equal(t, info.Parts, found.Parts)
		requireState(t, s, info.ID, target, draft, nil)

		// In room that suffices nothing is allocated for it, and other room is left alone.
		room := make([]byte, 10, 30_000)
		got, err := s.Get(ctx, info.ID, room)
		require.NoError(t, err)
		require.True(t, &room[0] == &got[0].Bytes[0])
		require.Equal(t, 20_000, cap(got[0].Bytes))

		// Another under the same key replaces it as a whole.
		again := put(t, s, k, draft)
		require.Equal(t, info.ID, again.ID)
		requireState(t, s, info.ID, draft)
		requireTidy(t, s)
		require.Equal(t, 1, s.Stats().States)
		require.NoError(t, s.Delete(info.ID))
		require.ErrorIs(t, s.Delete(info.ID), ErrMiss{})
		_, err = s.Get(ctx, info.ID, nil)
		require.ErrorIs(t, err, ErrMiss{})
		requireTidy(t, s)
		require.Zero(t, s.Stats().Bytes)
		require.NoError(t, s.Close())
	})
}

// Readers of all kinds are read to their ends, and no end is taken for one that is none.
func TestReaders(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	content := noise(1, 10_000)
	k := Key{Identity: llama}
	before := put(t, s, k, noise(2, 3000))
	for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(content)), iotest.DataErrReader(bytes.NewReader(content)), iotest.HalfReader(bytes.NewReader(content))} {
		info, err := s.Put(ctx, k, PutOptions{}, Source{"target", r})
		require.NoError(t, err)
		requireState(t, s, info.ID, content)
	}
	broken := errors.New("broken")
	for _, is := range []error{broken, io.ErrUnexpectedEOF} {
		_, err := s.Put(ctx, k, PutOptions{}, Source{"target", bytes.NewReader(content)}, Source{"draft", io.MultiReader(bytes.NewReader(content[:5000]), iotest.ErrReader(is))})
		require.ErrorIs(t, err, is)
		requireState(t, s, before.ID, content)
		requireTidy(t, s)
	}
	_, err := s.Put(ctx, k, PutOptions{}, Source{"target", iotest.TimeoutReader(bytes.NewReader(noise(3, 20_000)))})
	require.ErrorIs(t, err, iotest.ErrTimeout)
	requireState(t, s, before.ID, content)
}

// A reader that panics leaves nothing behind if the caller recovers, as servers do.
func TestReaderPanics(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	before := put(t, s, numbered(1), noise(1, 3000))
	used := s.Stats().Bytes
	for at := range 4 {
		calls := 0
		r := readerFunc(func(b []byte) (int, error) {
			if calls++; calls > at {
				panic("reader")
			}
			return copy(b, noise(uint64(calls), len(b))), nil
		})
		require.PanicsWithValue(t, "reader", func() {
			_, _ = s.Put(ctx, numbered(1), PutOptions{}, Source{names[0], bytes.NewReader(noise(2, 5000))}, Source{names[1], r})
		})
		requireTidy(t, s)
		require.Equal(t, used, s.Stats().Bytes)
	}
	requireState(t, s, before.ID, noise(1, 3000))
	require.NoError(t, s.Close())
}

// Successive states of a conversation have their beginning once, and those of other salts have nothing in common with them.
func TestShared(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	text := noise(1, 100_000)
	costs := func(k Key, content []byte) int64 {
		before := s.Stats().Written
		info := put(t, s, k, content)
		requireState(t, s, info.ID, content)
		return s.Stats().Written - before
	}
	key := func(n int) Key { return Key{Identity: llama, Tokens: tokens(1, n)} }
	require.Equal(t, int64(len(text)), costs(key(100), text))
	require.Zero(t, costs(key(100), text))
	require.LessOrEqual(t, costs(key(105), append(text, noise(2, 5000)...)), int64(5000+small.max))
	inserted := slices.Concat(text[:50_000], noise(4, 100), text[50_000:])
	require.LessOrEqual(t, costs(key(106), inserted), int64(100+4*small.max))
	other := key(100)
	other.Salt = "b"
	require.Equal(t, int64(len(text)), costs(other, text))
	requireTidy(t, s)

	n, err := s.Clear("a")
	require.NoError(t, err)
	require.Equal(t, 3, n)
	requireTidy(t, s)
	list, err := s.List()
	require.NoError(t, err)
	require.Len(t, list, 1)
	requireState(t, s, list[0].ID, text)
}

// Calls after Close, and on what Open has not made, say so. Closing waits for nobody who is not there.
func TestClosed(t *testing.T) {
	made := open(t, t.TempDir()+"/d", Options{})
	require.NoError(t, made.Close())
	for _, s := range []*Store{made, {}} {
		_, err := s.Put(ctx, Key{}, PutOptions{}, Source{"", bytes.NewReader(nil)})
		require.ErrorIs(t, err, ErrClosed)
		_, err = s.Get(ctx, ID{}, nil)
		require.ErrorIs(t, err, ErrClosed)
		_, err = s.Find(Key{})
		require.ErrorIs(t, err, ErrClosed)
		_, _, err = s.Nearest(Identity{}, nil)
		require.ErrorIs(t, err, ErrClosed)
		_, err = s.List()
		require.ErrorIs(t, err, ErrClosed)
		_, err = s.Clear("")
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, s.Pin(ID{}, true), ErrClosed)
		require.ErrorIs(t, s.Delete(ID{}), ErrClosed)
		require.Zero(t, s.Stats().States)
		require.NoError(t, s.Close())
	}
}

func TestArguments(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	empty := func() Source { return Source{"a", bytes.NewReader(nil)} }
	for _, sources := range [][]Source{nil, {{"a", nil}}, {empty(), empty()}, make([]Source, mostParts+1)} {
		_, err := s.Put(ctx, Key{}, PutOptions{}, sources...)
		require.ErrorIs(t, err, ErrArgument{})
	}
	_, err := s.Put(ctx, Key{}, PutOptions{TTL: -1}, empty())
	require.ErrorIs(t, err, ErrArgument{})
	requireTidy(t, s)
	for _, o := range []Options{{Bytes: -1}, {Floor: -1}, {Secret: []byte("short")}, {Bytes: 5000}} {
		o.disk = &quick
		_, err := Open(t.TempDir()+"/d", o)
		require.ErrorIs(t, err, ErrConfig{})
	}
	_, err = Open("", Options{})
	require.ErrorIs(t, err, ErrConfig{})
	_, err = Open(s.dir, Options{disk: &quick})
	require.ErrorIs(t, err, ErrInUse{s.dir})
	_, err = os.Stat(s.dir)
	require.NoError(t, err)
}

// Chunks that are compressed are not read without a compressor, and are no worse for it; who puts the same bytes without one stores them as they are.
func TestCompressor(t *testing.T) {
	with := Options{Compressor: zstd.Compressor{}}
	s := open(t, t.TempDir()+"/d", with)
	content := bytes.Repeat([]byte("what was said "), 500)
	info := put(t, s, numbered(1), content)
	first := s.states[info.ID].chunks[0][0]
	require.Less(t, s.chunks[first.Sum].stored, first.Bytes)
	s = reopen(t, s, Options{})
	_, err := s.Get(ctx, info.ID, nil)
	require.ErrorIs(t, err, ErrConfig{})
	require.Equal(t, "Compressor", err.(ErrConfig).Field)
	s = reopen(t, s, with)
	requireState(t, s, info.ID, content)
	s = reopen(t, s, Options{})
	put(t, s, numbered(2), content)
	requireState(t, s, info.ID, content)
	requireTidy(t, s)
	s = reopen(t, s, with)
	requireState(t, s, info.ID, content)
	require.Zero(t, s.Stats().Damaged)
}
