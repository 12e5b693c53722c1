package replay

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
)

// times is n times the cache.
func times(n float64) Room { return Room{times: n} }

// tokenBytes is of Llama-3.1-8B in f16.
const tokenBytes = 128 << 10

// below replays a trace with tiers, and checks what holds for any.
func below(t require.TestingT, trace *Trace, policy string, capacity Capacity, tiers Tiers) Run {
	tiers.TokenBytes = tokenBytes
	s := Setup{Tiers: tiers}
	require.NoError(t, s.Check())
	r, err := trace.Replay(context.Background(), policy, capacity, s, func(int) {})
	require.NoError(t, err)
	hits := r.Below.Device
	for _, u := range r.Below.Tiers {
		hits += u.Hits
		require.GreaterOrEqual(t, u.Loaded, int64(u.Hits), u.Name)
		require.LessOrEqual(t, u.Stored-u.Evicted, int64(u.Blocks), u.Name)
	}
	require.Equal(t, r.Hits, hits)
	require.LessOrEqual(t, r.Hits, trace.InfiniteHits())
	require.Equal(t, replayed(t, trace, policy, r.Blocks), r.Below.Alone)
	return r
}

// Mooncake's hour of conversations through a cache of 5 % of its blocks and a disk of 20 times that: nearly as if there were room
// for all, also where the disk writes what it has no room for at its second use.
func TestMooncakeTiers(t *testing.T) {
	skipRace(t)
	t.Parallel()
	trace := mooncake(t)
	for _, admission := range []disk.Admission{disk.All, disk.SecondUse} {
		r := below(t, trace, "adaptive", Capacity{percent: 5}, Tiers{Disk: times(20), Admission: admission})
		require.Equal(t, []int{9_139, 182_780}, []int{r.Blocks, r.Below.Tiers[0].Blocks})
		require.GreaterOrEqual(t, float64(r.Hits), 0.99*105_710, admission)
		require.Less(t, r.Below.Alone, 2*105_710/3, "which the cache alone is far from")
	}
	// A disk that has room for a quarter of that gives up what it wrote: on second use it writes less.
	all := below(t, trace, "adaptive", Capacity{percent: 5}, Tiers{Disk: times(5), Admission: disk.All})
	second := below(t, trace, "adaptive", Capacity{percent: 5}, Tiers{Disk: times(5), Admission: disk.SecondUse})
	require.Less(t, second.Below.Tiers[0].Stored, all.Below.Tiers[0].Stored/2)
	require.Greater(t, min(all.Hits, second.Hits), all.Below.Alone)
}

// The time to the first token: with tiers that are faster than computing it falls, and with slower ones it does not rise.
func TestMooncakeTimes(t *testing.T) {
	skipRace(t)
	t.Parallel()
	trace := mooncake(t)
	const prefill = 20_000
	fast := below(t, trace, "lru", Capacity{percent: 5}, Tiers{Host: times(4), Disk: times(20), Prefill: prefill, HostRate: 20e9, DiskRate: 6e9}).Below
	require.Less(t, fast.With.Mean, 0.9*fast.Without.Mean)
	require.Less(t, fast.With.P50, fast.Without.P50)
	require.Positive(t, fast.Planner.Decisions[planner.Load])
	require.Greater(t, fast.Tiers[0].Hits, fast.Tiers[1].Hits, "most prompts come back soon")
	slow := below(t, trace, "lru", Capacity{percent: 5}, Tiers{Disk: times(20), Prefill: prefill, DiskRate: 1e9}).Below
	require.Zero(t, slow.Tiers[0].Hits)
	require.Equal(t, slow.Without, slow.With, "which computes 20,000 tokens of 128 KiB in the time that 8,000 are loaded in")
	require.Positive(t, slow.Planner.Probes)
}

// With room for all in some tier, all comes back.
func TestTiersHaveAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := drawTrace(t, 60)
		capacity := rapid.IntRange(6, 12).Draw(t, "capacity") // the longest prompt fits
		for _, tiers := range []Tiers{
			{Disk: Room{blocks: trace.Unique()}}, {Host: Room{blocks: trace.Unique()}},
			{Host: Room{blocks: rapid.IntRange(1, 20).Draw(t, "host")}, Disk: Room{blocks: trace.Unique()}},
			{Host: times(rapid.Float64Range(0.1, 3).Draw(t, "times")), Disk: Room{blocks: trace.Unique()}, Admission: disk.SecondUse},
		} {
			r := below(t, trace, "lru", Capacity{blocks: capacity}, tiers)
			require.Equal(t, trace.InfiniteHits(), r.Hits)
			require.Equal(t, Times{}, r.Below.With)
		}
	})
}

// The time of no request is more than 1.1 times that of computing what the cache does not have, whatever the rates are.
func TestTiersAreNeverSlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := drawTrace(t, 60)
		rate := rapid.Float64Range(1e6, 1e11)
		tiers := Tiers{Host: Room{blocks: rapid.IntRange(1, 20).Draw(t, "host")}, Disk: times(4), TokenBytes: rapid.SampledFrom([]int64{1 << 10, tokenBytes, 1 << 22}).Draw(t, "token"),
			Prefill: rapid.Float64Range(10, 1e6).Draw(t, "prefill"), HostRate: rate.Draw(t, "host rate"), DiskRate: rate.Draw(t, "disk rate")}
		c, err := newTiered("lru", trace, tiers, rapid.IntRange(1, 12).Draw(t, "capacity"))
		require.NoError(t, err)
		for i := range trace.Requests() {
			before := c.below.Device
			_, err := c.request(trace.Path(i))
			require.NoError(t, err)
			computing := c.clock.duration((c.below.Device-before)*trace.BlockTokens, len(trace.Path(i))*trace.BlockTokens)
			require.LessOrEqual(t, c.withTimes[i], 1.1*computing.Seconds()+1e-8)
		}
		require.NoError(t, c.Close())
	})
}

// naiveDisk is a disk by a look at all of its blocks.
type naiveDisk struct {
	room   int
	second bool
	blocks map[uint32]naiveBlock
	seen   map[uint32]bool
	clock  int
}

type naiveBlock struct {
	parent uint32
	used   int
}

func (d *naiveDisk) touch(b uint32) {
	d.clock++
	d.blocks[b] = naiveBlock{d.blocks[b].parent, d.clock}
}

// put reports whether the block is there afterwards. One whose parent was declined by the same call is declined, but seen.
func (d *naiveDisk) put(b, parent uint32, orphan bool) bool {
	if len(d.blocks) < d.room {
		if orphan {
			return false
		}
	} else {
		if first := d.second && !d.seen[b]; first || orphan {
			d.seen[b] = true
			return false
		}
		oldest, at := uint32(0), math.MaxInt
		for x, n := range d.blocks {
			leaf := x != parent
			for _, other := range d.blocks {
				leaf = leaf && other.parent != x
			}
			if leaf && n.used < at {
				oldest, at = x, n.used
			}
		}
		if at == math.MaxInt {
			return false
		}
		delete(d.blocks, oldest)
	}
	d.clock++
	d.blocks[b] = naiveBlock{parent, d.clock}
	return true
}

// A tree above a disk does what both do one after the other.
func TestTiersModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := drawTrace(t, 60)
		replayNaively(t, trace, rapid.IntRange(1, 12).Draw(t, "capacity"), rapid.IntRange(1, 20).Draw(t, "disk"), rapid.Bool().Draw(t, "second use"))
	})
}

// A block that was put twice is not written if the one before it is declined: 2 of {1, 2} at its second use, because 1, which was
// written and given up, is put a second time only now.
func TestTiersDeclineOrphans(t *testing.T) {
	replayNaively(t, traceOf(t, [][]uint64{{1}, {0}, {1, 2}, {0}, {3}, {1, 2}, {0}}), 2, 1, true)
}

// replayNaively replays a trace, and compares the hits of each request, and the blocks on a disk after them, with a naive model.
func replayNaively(t require.TestingT, trace *Trace, capacity, room int, second bool) {
	d := &naiveDisk{room: room, second: second, blocks: map[uint32]naiveBlock{}, seen: map[uint32]bool{}}
	tiers := Tiers{Disk: Room{blocks: room}, TokenBytes: 1}
	if second {
		tiers.Admission = disk.SecondUse
	}
	c, err := newTiered("slru", trace, tiers, capacity)
	require.NoError(t, err)
	device, err := newTree("slru", capacity)
	require.NoError(t, err)
	for i := range trace.Requests() {
		path := trace.Path(i)
		had, err := device.take(path)
		require.NoError(t, err)
		want := had
		for end := had + device.room(len(path)-had); want < end; want++ {
			if _, ok := d.blocks[path[want]]; !ok {
				break
			}
		}
		for _, b := range path[had:want] {
			d.touch(b)
		}
		require.NoError(t, device.extend(path, want))
		require.NoError(t, device.extend(path, len(path)))
		orphan := false
		for j := want; j < len(device.path); j++ {
			parent := uint32(noParent)
			if j > 0 {
				parent = path[j-1]
			}
			if _, ok := d.blocks[path[j]]; ok {
				orphan = false
			} else {
				orphan = !d.put(path[j], parent, orphan)
			}
		}
		require.NoError(t, device.prefix.Release(device.path))
		got, err := c.request(path)
		require.NoError(t, err)
		require.Equal(t, want, got, "request %d", i)
	}
	require.Equal(t, int64(len(d.blocks)), c.tiers[0].Stats().Blocks)
	require.NoError(t, c.Close())
}

func TestRooms(t *testing.T) {
	for text, want := range map[string]int{"20x": 200, "0.25x": 2, "0.01x": 1, "7": 7, "1e9x": maxUnique} {
		r, err := ParseRoom("disk", text)
		require.NoError(t, err, text)
		require.True(t, r.Any())
		require.Equal(t, want, r.Blocks(10), text)
		again, err := ParseRoom("disk", r.String())
		require.NoError(t, err)
		require.Equal(t, r, again)
	}
	for _, text := range []string{"", "0", "x", "0x", "-1x", "NaNx", "Infx", "5%", "4 x", "1e20x", "unlimited"} {
		_, err := ParseRoom("host", text)
		require.ErrorContains(t, err, "host "+text+": accepts 1 to ", text)
		require.ErrorIs(t, err, ErrSetting{})
	}
	require.False(t, Room{}.Any())
	require.Empty(t, Room{}.String())
}

func TestSetupRefuses(t *testing.T) {
	for want, s := range map[string]Setup{
		"host or --disk 20x: is for models with full attention only":                       {Parts: Parts{States: 1}, Tiers: Tiers{Disk: times(20), TokenBytes: 1}},
		"token-bytes 0: accepts 1 to 2147483647":                                           {Tiers: Tiers{Disk: times(20)}},
		"prefill-rate -1: accepts numbers above 0":                                         {Tiers: Tiers{Disk: times(20), TokenBytes: 1, Prefill: -1}},
		"disk-rate 0: is needed to know how long loading takes":                            {Tiers: Tiers{Disk: times(20), TokenBytes: 1, Prefill: 5, HostRate: 2}},
		"host-rate 0: is needed to know how long loading takes":                            {Tiers: Tiers{Host: times(20), TokenBytes: 1, Prefill: 5, DiskRate: 2}},
		"host-rate NaN: accepts numbers above 0":                                           {Tiers: Tiers{Host: times(20), TokenBytes: 1, Prefill: 5, HostRate: math.NaN()}},
		"disk-rate 7: is for the time to the first token: give the rate of computing, too": {Tiers: Tiers{Disk: times(20), TokenBytes: 1, DiskRate: 7}},
		"window 0: accepts 1 to 1073741824":                                                {Parts: Parts{Windows: 1}},
	} {
		require.EqualError(t, s.Check(), want)
	}
	require.NoError(t, Setup{}.Check())
}

func TestTimes(t *testing.T) {
	require.Equal(t, Times{}, timesOf(nil))
	require.Equal(t, Times{2, 2, 3, 3}, timesOf([]float64{3, 1, 2}))
	var all []float64
	for i := range 101 {
		all = append(all, float64((i*37)%101))
	}
	require.Equal(t, []float64{50, 90, 99}, []float64{timesOf(all).P50, timesOf(all).P90, timesOf(all).P99})
}

// What tiers say they have and do not bring is an error, as is a payload of another block.
func TestTiersThatLie(t *testing.T) {
	trace := traceOf(t, [][]uint64{{1, 2, 3}, {4, 5, 6}, {1, 2, 3}})
	c, err := newTiered("lru", trace, Tiers{Disk: times(4), TokenBytes: 1}, 3)
	require.NoError(t, err)
	for i := range 2 {
		_, err := c.request(trace.Path(i))
		require.NoError(t, err)
	}
	require.NoError(t, c.tiers[0].Delete(context.Background(), c.keys[:1]))
	c.lend(0, 1) // of {4, 5, 6}
	c.job.Blocks[0].Sum = c.job.Blocks[0].Summed()
	require.NoError(t, c.tiers[0].Put(context.Background(), c.job.Blocks))
	_, err = c.read(trace.Path(1), 0, 1)
	require.ErrorIs(t, err, prefix.ErrCorrupt)
	require.NoError(t, c.tiers[0].Clear(context.Background(), [32]byte{}))
	_, err = c.read(trace.Path(1), 0, 1)
	require.ErrorContains(t, err, "tiers have 0 of 1 blocks")
	require.NoError(t, c.Close())
}
