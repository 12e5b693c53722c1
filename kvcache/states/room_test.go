package states

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func numbered(n int) Key { return Key{Identity: llama, Tokens: tokens(uint64(n), 10)} }

func has(t testingT, s *Store, n int) bool {
	t.Helper()
	_, err := s.Find(numbered(n))
	if err != nil {
		require.ErrorIs(t, err, ErrMiss{})
	}
	return err == nil
}

// Within the budget states go that were used least lately, but for those that are pinned; that is known to the next process, too.
func TestBudget(t *testing.T) {
	c := newClock()
	o := Options{Bytes: 40 * blockBytes, now: c.now}
	s := open(t, t.TempDir()+"/d", o)
	infos := []Info{}
	for n := range 4 {
		info := put(t, s, numbered(n), noise(uint64(n), 1000))
		infos = append(infos, info)
		require.LessOrEqual(t, s.Stats().Bytes, o.Bytes)
	}
	requireState(t, s, infos[0].ID, noise(0, 1000))
	require.NoError(t, s.Pin(infos[1].ID, true))
	require.NoError(t, s.Pin(infos[1].ID, true))
	require.ErrorIs(t, s.Pin(ID{}, true), ErrMiss{})
	s = reopen(t, s, o)
	require.Equal(t, 1, s.Stats().Pinned)
	for n := 4; s.Stats().Evicted < 2; n++ {
		put(t, s, numbered(n), noise(uint64(n), 1000))
		require.LessOrEqual(t, s.Stats().Bytes, o.Bytes)
		requireTidy(t, s)
	}
	require.True(t, has(t, s, 0))
	require.True(t, has(t, s, 1))
	require.False(t, has(t, s, 2))
	require.False(t, has(t, s, 3))

	// What is larger than all that may go is refused, and as much as before is left pinned.
	_, err := s.Put(ctx, numbered(100), PutOptions{}, sources([][]byte{noise(100, 38*blockBytes)})...)
	require.ErrorIs(t, err, ErrFull{})
	require.ErrorContains(t, err, "unpin")
	requireState(t, s, infos[1].ID, noise(1, 1000))
	requireTidy(t, s)
	_, err = s.Put(ctx, numbered(101), PutOptions{}, sources([][]byte{make([]byte, o.Bytes+1)})...)
	require.ErrorIs(t, err, ErrFull{}, "it would not fit as it is")
	require.ErrorContains(t, err, "raise Bytes")
	require.NotContains(t, err.Error(), "unpin")
	require.Equal(t, 1, strings.Count(err.Error(), "states: "))

	// A smaller budget is in force when the directory is opened, and pinned states go when they are deleted.
	require.NoError(t, s.Pin(infos[1].ID, false))
	o.Bytes = 10 * blockBytes
	s = reopen(t, s, o)
	require.LessOrEqual(t, s.Stats().Bytes, o.Bytes)
	requireTidy(t, s)
}

// Where pinned states take all there is, one can be unpinned, and goes for the next.
func TestUnpinWhereItIsFull(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{Bytes: 64 * blockBytes})
	var last Info
	var err error
	for n := 1; err == nil; n++ {
		var info Info
		if info, err = s.Put(ctx, numbered(n), PutOptions{Pin: true}, sources([][]byte{noise(uint64(n), 1000)})...); err == nil {
			last = info
		}
	}
	require.ErrorIs(t, err, ErrFull{})
	_, err = s.Put(ctx, numbered(1000), PutOptions{Pin: true}, sources([][]byte{nil})...)
	require.ErrorIs(t, err, ErrFull{}, "not even a block is left")
	require.NoError(t, s.Pin(last.ID, false))
	put(t, s, numbered(0), noise(0, 1000))
	_, err = s.Find(last.Key)
	require.ErrorIs(t, err, ErrMiss{})
	requireTidy(t, s)
}

// A state that has more bytes than a smaller budget goes when the directory is opened, and was not damaged; one that is pinned stays.
func TestLargerThanTheBudget(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	content := make([]byte, 300_000)
	put(t, s, numbered(1), content)
	pinned, err := s.Put(ctx, numbered(2), PutOptions{Pin: true}, sources([][]byte{content})...)
	require.NoError(t, err)
	s = reopen(t, s, Options{Bytes: 200_000})
	require.False(t, has(t, s, 1))
	requireState(t, s, pinned.ID, content)
	require.Equal(t, uint64(1), s.Stats().Evicted)
	require.Zero(t, s.Stats().Damaged)
	requireTidy(t, s)
}

// The floor stays free, whoever takes the room.
func TestFloor(t *testing.T) {
	c, free := newClock(), int64(100*blockBytes)
	on := quick
	on.space = func(string) (int64, int64, error) { return free, 1 << 40, nil }
	o := Options{Floor: 50 * blockBytes, now: c.now, disk: &on}
	s := open(t, t.TempDir()+"/d", o)
	put(t, s, numbered(0), noise(0, 1000))
	put(t, s, numbered(1), noise(1, 1000))
	free = 50 * blockBytes // another took it
	put(t, s, numbered(2), noise(2, 100))
	require.False(t, has(t, s, 0))
	require.Positive(t, s.Stats().Evicted)
	free = 0
	_, err := s.Put(ctx, numbered(3), PutOptions{}, sources([][]byte{noise(3, 100)})...)
	require.ErrorIs(t, err, ErrFull{})
	require.ErrorContains(t, err, "lower Floor")
	requireTidy(t, s)
}

// A floor that no file system of this size can have is refused, and nothing goes for it.
func TestFloorOfAll(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	info := put(t, s, numbered(1), noise(1, 1000))
	require.NoError(t, s.Close())
	for _, floor := range []int64{1 << 51, math.MaxInt64} {
		_, err := Open(s.dir, Options{Floor: floor, disk: &quick, Network: true})
		require.ErrorIs(t, err, ErrConfig{})
		require.Equal(t, "Floor", err.(ErrConfig).Field)
	}
	requireState(t, open(t, s.dir, Options{}), info.ID, noise(1, 1000))
}

// A lifetime ends, also while nobody has the directory open, and pinned or not.
func TestLifetime(t *testing.T) {
	c := newClock()
	o := Options{now: c.now}
	s := open(t, t.TempDir()+"/d", o)
	for n, ttl := range []time.Duration{time.Hour, 3 * time.Hour, 0} {
		_, err := s.Put(ctx, numbered(n), PutOptions{TTL: ttl, Pin: n == 0}, sources([][]byte{noise(uint64(n), 1000)})...)
		require.NoError(t, err)
	}
	c.sleep(time.Hour)
	require.False(t, has(t, s, 0))
	require.True(t, has(t, s, 1))
	requireTidy(t, s)
	require.NoError(t, s.Close())
	c.sleep(3 * time.Hour)
	s = open(t, s.dir, o)
	require.False(t, has(t, s, 1))
	require.True(t, has(t, s, 2))
	require.Equal(t, uint64(1), s.Stats().Expired)
	requireTidy(t, s)
}

// A state whose lifetime is over is a miss where its manifest cannot be removed, and other states are found. It is removed when that works, unless a Put has
// replaced it by then.
func TestLifetimeOnAFailingDisk(t *testing.T) {
	c, broken := newClock(), false
	d := machine
	d.remove = func(path string) error {
		if broken {
			return errors.New("read-only")
		}
		return machine.remove(path)
	}
	s := open(t, t.TempDir()+"/d", Options{now: c.now, disk: &d})
	put := func(n int, ttl time.Duration) {
		_, err := s.Put(ctx, numbered(n), PutOptions{TTL: ttl}, sources([][]byte{noise(uint64(n), 1000)})...)
		require.NoError(t, err)
	}
	put(0, time.Hour)
	put(1, time.Hour)
	put(2, 0)
	full := s.Stats().Bytes
	c.sleep(time.Hour)
	broken = true
	for range 3 {
		require.False(t, has(t, s, 0))
		require.False(t, has(t, s, 1))
		require.True(t, has(t, s, 2))
	}
	require.Equal(t, uint64(2), s.Stats().Expired)
	require.Equal(t, full, s.Stats().Bytes)
	put(1, 0)
	broken = false
	require.True(t, has(t, s, 1))
	require.True(t, has(t, s, 2))
	requireTidy(t, s)
	s = reopen(t, s, Options{now: c.now})
	require.True(t, has(t, s, 1))
	require.False(t, has(t, s, 0))
}

// The longest lifetime that can be asked for has not ended when the directory is opened again.
func TestLongLifetime(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	info, err := s.Put(ctx, numbered(1), PutOptions{TTL: math.MaxInt64}, sources([][]byte{noise(1, 1000)})...)
	require.NoError(t, err)
	s = reopen(t, s, Options{})
	found, err := s.Find(numbered(1))
	require.NoError(t, err)
	require.True(t, info.Expires.Equal(found.Expires))
}

// What is being read stays until it is read, whatever becomes of it.
func TestReadWhileItGoes(t *testing.T) {
	s := open(t, t.TempDir()+"/d", Options{})
	content := noise(1, 5000)
	info := put(t, s, numbered(1), content)
	for _, goes := range []func(){
		func() { require.NoError(t, s.Delete(info.ID)) },
		func() { put(t, s, numbered(1), noise(2, 3000)) },
	} {
		put(t, s, numbered(1), content)
		require.NoError(t, s.enter())
		st := s.acquire(info.ID)
		goes()
		room := make([]byte, st.Bytes)
		require.NoError(t, s.readAll(ctx, st, room))
		require.Equal(t, content, room)
		require.NoError(t, s.settle(st, nil))
		s.leave()
		requireTidy(t, s)
	}
}
