// Tiers that lie, lose, hang, or have what others wrote.

package states

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Whatever a tier returns under whatever key, with sums that are right, a fetch is the state as it was put, or a miss that says why; and what was
// wrong is gone, so that it can be copied again.
func TestCopiesLie(t *testing.T) {
	for _, o := range []Options{{}, {Secret: secret}} {
		content := noise(1, 3000)
		k := long(600)
		for seed := range uint64(40) {
			random := rand.New(rand.NewPCG(seed, 5))
			c := openShared(t)
			a, b := over(t, c, o), over(t, c, o)
			id := put(t, a, k, content, content[:100]).ID
			put(t, a, long(300), content[:900])
			a.settled()
			at, calls := random.IntN(30), 0
			var last []byte
			c.got = func(b *tier.Block) {
				before := slices.Clone(b.Bytes)
				if calls++; calls > at && random.IntN(3) == 0 {
					switch random.IntN(4) {
					case 0:
						b.Bytes[random.IntN(len(b.Bytes))] ^= 1 << random.IntN(8)
					case 1:
						copy(b.Bytes, noise(seed, len(b.Bytes)))
					case 2:
						copy(b.Bytes, last) // of another block
					case 3:
						clear(b.Bytes[random.IntN(len(b.Bytes)):])
					}
				}
				last = before
			}
			_, err := b.Fetch(ctx, k)
			if err == nil {
				requireState(t, b, id, content, content[:100])
			} else {
				require.ErrorIs(t, err, ErrMiss{})
				require.Zero(t, b.Stats().States)
			}
			got, n, err := b.FetchNearest(ctx, llama, k.Tokens)
			switch {
			case err != nil:
				require.ErrorIs(t, err, ErrMiss{})
			case n == 600:
				requireState(t, b, id, content, content[:100])
			default:
				require.Equal(t, 300, n)
				requireState(t, b, got.ID, content[:900])
			}
			requireTidy(t, b)
			c.got = nil
			put(t, a, k, content, content[:100])
			a.settled()
			_, err = b.Fetch(ctx, k)
			require.NoError(t, err)
			requireState(t, b, id, content, content[:100])
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
			require.NoError(t, c.Close())
		}
	}
}

// What a tier writes to the memory of a call that has returned is not stored.
func TestCopiesWrittenLater(t *testing.T) {
	for _, o := range []Options{{}, {Secret: secret}} {
		c := openShared(t)
		var mu sync.Mutex
		var lent [][]byte
		on := quick
		on.create = func(path string) (*os.File, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, b := range lent {
				b[len(b)/3] ^= 1
			}
			return quick.create(path)
		}
		a := over(t, c, o)
		o.disk = &on
		b := over(t, c, o)
		content := noise(1, 60_000) // one call of the tier
		id := put(t, a, long(600), content).ID
		a.settled()
		c.got = func(b *tier.Block) {
			mu.Lock()
			defer mu.Unlock()
			lent = append(lent, b.Bytes)
		}
		_, err := b.Fetch(ctx, long(600))
		require.NoError(t, err)
		requireState(t, b, id, content)
	}
}

// Records and manifests with large numbers take no memory, and others' do not pass.
func TestCopiesForged(t *testing.T) {
	k := long(300)
	for _, bytes := range []uint64{0, 1, 100, largestCopied, largestCopied + 1, 1 << 40, math.MaxUint64} {
		c := openShared(t)
		s := over(t, c, Options{})
		id := s.names.id(&k)
		forged := le.AppendUint64(append([]byte("fkvr\x02\x00\x00\x00"), id[:]...), bytes)
		b := tier.Block{Key: s.names.stateKey(id), Bytes: make([]byte, filledSize(len(forged)))}
		copy(b.Bytes, forged)
		b.Sum = b.Summed()
		require.NoError(t, c.Put(ctx, []tier.Block{b}))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := s.Fetch(ctx, k)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20)) // keys of pieces of 1 KiB among them
		require.ErrorIs(t, err, ErrMiss{})
		if bytes == 0 || bytes > largestCopied {
			require.ErrorIs(t, err, ErrCopies{})
			require.ErrorContains(t, err, "bytes, at most 67108864")
			require.Zero(t, c.Stats().Blocks)
		}
	}
	c := openShared(t)
	s := over(t, c, Options{})
	for _, parts := range [][]PartInfo{nil, {{Name: "twice"}, {Name: "twice"}}} { // as no Put has it
		st := &state{Info: Info{ID: s.names.id(&k), Key: k, Parts: parts}, chunks: make([][]chunk, len(parts))}
		manifest, err := st.encode(nil)
		require.NoError(t, err)
		require.NoError(t, s.copies.publish(ctx, st, manifest))
		_, err = s.Fetch(ctx, k)
		require.ErrorIs(t, err, ErrMiss{})
		require.ErrorIs(t, err, ErrCopies{})
		requireTidy(t, s)
	}
	tiny := &state{Info: Info{ID: s.names.id(&k), Key: k, Parts: []PartInfo{{Name: "target"}}}, chunks: [][]chunk{{{sum{1}, small.min - 1}, {sum{2}, 1}}}}
	manifest, err := tiny.encode(nil)
	require.NoError(t, err)
	require.NoError(t, s.copies.publish(ctx, tiny, manifest))
	_, err = s.Fetch(ctx, k)
	require.ErrorIs(t, err, ErrMiss{})
	require.ErrorContains(t, err, "of 127 bytes, of 128 at least")
}

// A state that is larger than the budget here is not fetched, says so, and stays where it is.
func TestCopiesLarge(t *testing.T) {
	c := openShared(t)
	a, b := over(t, c, Options{}), over(t, c, Options{Bytes: 5 * blockBytes})
	put(t, a, long(300), noise(1, 30_000))
	a.settled()
	_, err := b.Fetch(ctx, long(300))
	require.ErrorIs(t, err, ErrFull{Need: 30_000, Budget: 5 * blockBytes})
	_, _, err = b.FetchNearest(ctx, llama, tokens(1, 300))
	require.ErrorIs(t, err, ErrFull{})
	requireTidy(t, b)
	_, err = over(t, c, Options{}).Fetch(ctx, long(300))
	require.NoError(t, err)
	_, err = Open(t.TempDir()+"/d", Options{disk: &quick, Network: true, Copies: tierWith{c, tier.Info{Largest: 65535}}})
	require.ErrorIs(t, err, ErrConfig{})
	require.ErrorContains(t, err, "65535 bytes at most, and copies have up to 65576") // in KiB they are the same
}

// A fetch that is under way brings what it finds, whatever else is deleted meanwhile, and not what is deleted itself.
func TestCopiesDeleteOthers(t *testing.T) {
	for _, what := range []string{"another", "another's", "it", "all"} {
		c := openShared(t)
		a, b := over(t, c, Options{}), over(t, c, Options{})
		id := put(t, a, long(600), noise(1, 3000)).ID
		his := long(300)
		his.Salt = "his"
		other := put(t, b, his, noise(2, 3000)).ID
		a.settled()
		b.settled()
		var once sync.Once
		inside, going := make(chan struct{}), make(chan struct{})
		c.before = func(op string) {
			if op == "get" {
				once.Do(func() { close(inside); <-going })
			}
		}
		done := make(chan error, 1)
		go func() {
			_, err := b.Fetch(ctx, long(600))
			done <- err
		}()
		<-inside
		var err error
		switch what {
		case "another":
			_, err = b.deleteAll(func(st *state) bool { return st.ID == other })
		case "another's":
			_, err = b.deleteAll(func(st *state) bool { return st.Key.Salt == "his" })
		case "it":
			_, err = b.deleteAll(func(st *state) bool { return st.ID == id })
		case "all":
			_, err = b.deleteAll(func(st *state) bool { return st.Key.Salt == "a" })
		}
		require.NoError(t, err)
		close(going)
		if what == "it" || what == "all" {
			require.Equal(t, ErrMiss{}, <-done, what)
			continue
		}
		require.NoError(t, <-done, what)
		requireState(t, b, id, noise(1, 3000))
		b.clean() // as at the end of Delete
		requireTidy(t, b)
	}
}

// A Delete or Clear that waits for the tier when the store is closed is done to its end, and Close waits for it.
func TestCopiesDeleteAndClose(t *testing.T) {
	for _, all := range []bool{false, true} {
		c := openShared(t)
		s := over(t, c, Options{})
		id := put(t, s, long(600), noise(1, 3000)).ID
		s.settled()
		var once sync.Once
		inside, going := make(chan struct{}), make(chan struct{})
		c.before = func(op string) {
			if op == "delete" || op == "clear" {
				once.Do(func() { close(inside); <-going })
			}
		}
		deleted, closed := make(chan error, 1), make(chan error, 1)
		go func() {
			var err error
			if all {
				_, err = s.Clear("a")
			} else {
				err = s.Delete(id)
			}
			deleted <- err
		}()
		<-inside
		go func() { closed <- s.Close() }()
		for closing := false; !closing; time.Sleep(time.Millisecond) {
			s.mu.Lock()
			closing = !s.opened
			s.mu.Unlock()
		}
		close(going)
		require.NoError(t, <-deleted)
		require.NoError(t, <-closed)
		s = open(t, s.dir, Options{})
		require.Zero(t, s.Stats().States)
		require.NoError(t, s.Close())
	}
}

type tierWith struct {
	tier.Tier
	info tier.Info
}

func (t tierWith) Info() tier.Info { return t.info }

// A tier that does not answer, fails or panics holds nobody: Put and what is here go on, a fetch ends with its context, Delete says that a copy may
// be left, and so does Close.
func TestCopiesHang(t *testing.T) {
	end := make(chan struct{})
	c := openShared(t)
	s := over(t, c, Options{mover: hasty})
	a := over(t, c, Options{})
	put(t, a, long(600), noise(1, 3000))
	a.settled()
	c.before = func(string) { <-end }
	info := put(t, s, long(300), noise(2, 3000))
	requireState(t, s, info.ID, noise(2, 3000))
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	got, n, err := s.FetchNearest(short, llama, tokens(1, 600))
	require.NoError(t, err)
	require.Equal(t, 300, n)
	require.Equal(t, info.ID, got.ID)
	_, err = s.Fetch(short, long(600))
	require.ErrorIs(t, err, ErrMiss{})
	require.ErrorIs(t, err, ErrCopies{})
	require.ErrorIs(t, s.Delete(info.ID), ErrCopies{})
	require.Zero(t, s.Stats().States)
	_, err = s.Clear("a")
	require.ErrorIs(t, err, ErrCopies{})
	err = s.Close()
	require.ErrorIs(t, err, ErrCopies{})
	require.ErrorAs(t, err, new(tier.ErrHung))
	close(end)

	c = openShared(t)
	c.before = func(string) { panic("it broke") }
	s = over(t, c, Options{})
	put(t, s, long(300), noise(2, 3000))
	s.settled()
	require.Equal(t, uint64(1), s.Stats().NotCopied)
	_, err = s.Fetch(ctx, long(600))
	require.ErrorIs(t, err, ErrMiss{})
	require.NoError(t, s.Close())
}

// Delete does not read all that a tier has which takes long for each answer: it deletes what a state is found by, and says that something may be left.
func TestCopiesSlowly(t *testing.T) {
	for _, here := range []bool{true, false} {
		c := openShared(t)
		a, b := over(t, c, Options{}), over(t, c, Options{})
		k := long(60 * stride) // a manifest of 61 pieces
		id := put(t, a, k, noise(1, 3000)).ID
		a.settled()
		keys := a.names.recordKeys(a.names.copyKey(k.Salt), a.states[id])
		for i := 1; i < len(keys); i += 2 { // so that each of the others is asked for by itself
			require.NoError(t, c.Delete(ctx, keys[i:i+1]))
		}
		s := a
		if !here {
			s = b
		}
		s.copies.reads = 100 * time.Millisecond
		c.before = func(op string) {
			if op == "get" {
				time.Sleep(50 * time.Millisecond)
			}
		}
		begin := time.Now()
		require.ErrorIs(t, s.Delete(id), ErrCopies{})
		require.Less(t, time.Since(begin), time.Second, "30 reads or 61 take 1.5 seconds or more")
		c.before = nil
		require.Zero(t, s.Stats().States)
		_, err := over(t, c, Options{}).Fetch(ctx, k)
		require.Equal(t, ErrMiss{}, err)
		_, _, err = over(t, c, Options{}).FetchNearest(ctx, llama, k.Tokens)
		require.Equal(t, ErrMiss{}, err)
	}
}

// What is deleted while it is being copied, or on its way here, does not come back; what is put meanwhile stays; what is evicted while it is
// copied is no error.
func TestCopiesMeanwhile(t *testing.T) {
	for _, do := range []string{"delete", "clear", "put", "evict"} {
		c := openShared(t)
		var waits atomic.Bool
		inside, going := make(chan struct{}), make(chan struct{})
		on := quick
		on.create = func(path string) (*os.File, error) { // the first one is that of the chunks
			if !waits.Swap(true) && strings.Contains(path, ".pack") {
				close(inside)
				<-going
			}
			return quick.create(path)
		}
		a, b := over(t, c, Options{}), over(t, c, Options{Bytes: 200 * blockBytes, disk: &on})
		k := long(600)
		id := put(t, a, k, noise(1, 20_000)).ID
		a.settled()
		waits.Store(false)
		done := make(chan error, 1)
		go func() {
			_, err := b.Fetch(ctx, k)
			done <- err
		}()
		<-inside
		want := noise(1, 20_000)
		switch do {
		case "delete", "clear":
			if do == "clear" {
				_, err := b.Clear("a")
				require.NoError(t, err)
			} else {
				require.NoError(t, b.Delete(id))
			}
			close(going)
			require.ErrorIs(t, <-done, ErrMiss{})
			_, err := b.Find(k)
			require.Equal(t, ErrMiss{}, err)
			_, err = b.Fetch(ctx, k)
			require.Equal(t, ErrMiss{}, err)
			require.Zero(t, c.Stats().Blocks)
			requireTidy(t, b)
			continue
		case "put":
			want = noise(3, 2000)
			put(t, b, k, want)
		case "evict":
			a.mu.Lock()
			require.NoError(t, a.forget(a.states[id]))
			a.mu.Unlock()
		}
		close(going)
		require.NoError(t, <-done)
		requireState(t, b, id, want)
		requireTidy(t, b)
	}
	c := openShared(t)
	a := over(t, c, Options{})
	inside, going := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.before = func(op string) {
		if op == "put" {
			once.Do(func() { close(inside); <-going })
		}
	}
	id := put(t, a, long(600), noise(1, 20_000)).ID
	<-inside
	time.AfterFunc(10*time.Millisecond, func() { close(going) })
	require.NoError(t, a.Delete(id))
	a.settled()
	require.Zero(t, c.Stats().Blocks)
	require.Zero(t, a.Stats().Copied)
}
