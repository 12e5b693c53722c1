package disk

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// The free space stays above the floor, whoever takes it, and is used again when it comes back.
func TestFloor(t *testing.T) {
	o := options(newMemoryFS(), 20)
	o.Floor, o.syncEvery = 50_000, time.Millisecond
	sys := o.system.(*memoryFS)
	sys.size = 150_000
	d, _, now := opened(t, o)
	space := func() int64 {
		n, _, _ := sys.Space("")
		return n
	}
	for n := range 30 {
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1+n, 0)}))
		require.GreaterOrEqual(t, space(), o.Floor)
	}
	blocks := d.Stats().Blocks
	require.Greater(t, blocks, int64(9))
	require.Less(t, blocks, int64(13))
	require.Len(t, found(t, d, 30), int(blocks))

	sys.mu.Lock()
	sys.other = 40_000
	sys.mu.Unlock()
	signal(d.used)
	require.Eventually(t, func() bool { return space() >= o.Floor }, 10*time.Second, time.Millisecond)
	require.Less(t, d.Stats().Blocks, blocks-3)
	require.Len(t, found(t, d, 30), int(d.Stats().Blocks))

	sys.mu.Lock()
	sys.other = 0
	sys.mu.Unlock()
	now.pass(time.Minute)
	for n := range 30 {
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1+n, 0)}))
	}
	require.GreaterOrEqual(t, d.Stats().Blocks, blocks-1)
	require.NoError(t, d.Close())
	require.NoError(t, d.index.check())
}

// However much room there is above the floor, nothing of it is taken that is below, by the table's entries neither.
func TestFloorToTheByte(t *testing.T) {
	for extra := int64(0); extra < 2*page+entryBytes; extra += 64 {
		o := options(newMemoryFS(), 20)
		o.Floor = 50_000
		sys := o.system.(*memoryFS)
		sys.size = o.Floor + 3*page + 4*(2*page+entryBytes) + extra
		d, _, _ := opened(t, o)
		for n := range 8 {
			require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1+n, 0)}))
			free, _, _ := sys.Space("")
			require.GreaterOrEqual(t, free, o.Floor, "%d bytes more than a whole number of slots", extra)
		}
		require.GreaterOrEqual(t, d.Stats().Blocks, int64(4))
		require.NoError(t, d.Close())
	}
}

// A disk that is full, floor or not, keeps what it has and gives up blocks for others.
func TestFullDisk(t *testing.T) {
	o := options(newMemoryFS(), 20)
	sys := o.system.(*memoryFS)
	sys.size = 60_000
	d, _, _ := opened(t, o)
	for n := range 30 {
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1+n, 0)}))
	}
	require.Equal(t, [2]int64{0, 0}, [2]int64{d.Stats().Failures, d.Stats().Declined})
	require.GreaterOrEqual(t, d.Stats().Blocks, int64(4))
	require.Contains(t, found(t, d, 30), 30)
}

// A smaller budget holds from the moment of opening; what fits is still there, and all of it with the old one.
func TestBudget(t *testing.T) {
	o := options(newMemoryFS(), 10)
	d, sys, _ := opened(t, o)
	require.NoError(t, d.Put(ctx, chainOf(1, 10)))
	require.NoError(t, d.Close())
	for _, slots := range []int{10, 12, 7, 3, 9} {
		o.Bytes = budget(slots)
		d, _, _ := opened(t, o)
		require.LessOrEqual(t, sys.used(), o.Bytes)
		require.Equal(t, int64(slots)*payload, d.Stats().Capacity)
		require.Equal(t, min(slots, 10, len(found(t, d, 10))), len(found(t, d, 10)))
		if slots == 3 || slots == 9 {
			require.Len(t, found(t, d, 10), 3, "the first slots have the first blocks")
		}
		require.NoError(t, d.Close())
		require.NoError(t, d.index.check())
	}
	o.Bytes = 3 * page
	_, err := Open(o)
	require.ErrorAs(t, err, new(tier.ErrConfig))
}

// With second use all is written while there is room, and after that what comes again.
func TestSecondUse(t *testing.T) {
	o := options(newMemoryFS(), 4)
	o.Admission = SecondUse
	d, _, _ := opened(t, o)
	require.NoError(t, d.Put(ctx, chainOf(1, 4)))
	require.Len(t, found(t, d, 4), 4)
	require.NoError(t, d.Put(ctx, chainOf(11, 2)))
	require.Equal(t, [2]int64{2, 4}, [2]int64{d.Stats().Declined, int64(len(found(t, d, 20)))})
	require.NotContains(t, found(t, d, 20), 11)
	require.NoError(t, d.Put(ctx, chainOf(11, 2)))
	require.Subset(t, found(t, d, 20), map[int]bool{11: true, 12: true})
	require.Equal(t, int64(2), d.Stats().Evicted)
}

// Over the write budget it is the same while there is room.
func TestWriteBudget(t *testing.T) {
	o := options(newMemoryFS(), 100)
	o.Admission, o.WriteBudget = SecondUse, 24*10*payload
	d, _, now := opened(t, o)
	for n := range 40 {
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1+n, 0)}))
	}
	first := d.Stats().Stored
	require.InDelta(t, 11, first, 2)
	require.NoError(t, d.Put(ctx, []tier.Block{blockOf(40, 0)}))
	require.Equal(t, first+1, d.Stats().Stored, "a second use")
	now.pass(24 * time.Hour)
	for n := range 40 {
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(101+n, 0)}))
	}
	require.InDelta(t, first+1+11, d.Stats().Stored, 2, "what was saved up is that of an hour")
}

func TestSeen(t *testing.T) {
	var s seen
	for n := range 1000 {
		require.False(t, s.again(keyOf(n), 10))
		require.LessOrEqual(t, len(s.now)+len(s.before), 20)
		if n >= 10 {
			require.True(t, s.again(keyOf(n-9), 10))
		}
	}
	require.False(t, s.again(keyOf(1), 10))
}

// What was put is synced without being asked, after a while and when it is much.
func TestSyncs(t *testing.T) {
	for _, limit := range []int64{3 * payload, 1 << 40} {
		o := options(newMemoryFS(), 40)
		o.syncBytes = limit
		if limit > 1<<30 {
			o.syncEvery = time.Millisecond
		}
		d, sys, _ := opened(t, o)
		require.NoError(t, d.Put(ctx, chainOf(1, 20)))
		require.Eventually(t, func() bool {
			sys.mu.Lock()
			crashed := sys.crash(len(sys.log), 512, func() bool { return false })
			sys.mu.Unlock()
			o := o
			o.system = crashed
			r, err := Open(o)
			require.NoError(t, err)
			defer r.Close()
			return len(found(t, r, 20)) >= 17
		}, 10*time.Second, 10*time.Millisecond)
	}
}
