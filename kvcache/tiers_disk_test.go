package kvcache

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/stretchr/testify/require"
)

// lasting is a disk in a directory, as the next pool finds it.
func lasting(dir string) config.Tiers {
	return config.Tiers{Disk: config.Disk{Dir: dir, Bytes: 8 << 20, Floor: 1}}
}

// What was cleared is not found by the next pool, whether the one that cleared had put it there or not, and what others have is.
func TestClearedOnDisk(t *testing.T) {
	scopes := []prefix.Scope{{}, {Salt: []byte("a")}, {Salt: []byte("b")}, {Adapter: &prefix.Adapter{ID: "x", Version: "1"}}, {Adapter: &prefix.Adapter{ID: "x", Version: "2"}}}
	prompt := sequence(1, 23)
	for _, secret := range [][]byte{nil, bytes.Repeat([]byte{7}, 32)} {
		on := lasting(t.TempDir())
		on.Secret = secret
		there := []int{20, 20, 20, 20, 20}
		pool := func(do func(r *rig[buffer])) {
			t.Helper()
			r := tiered(t, 40, on)
			do(r)
			r.close()
			r = tiered(t, 40, on) // the next one
			for i, s := range scopes {
				m, err := r.pool.Match(prompt, OpenOptions{Scope: s})
				require.NoError(t, err)
				require.Equal(t, there[i], m.Loading, "scope %d", i)
			}
			r.close()
		}
		pool(func(r *rig[buffer]) {
			for _, s := range scopes {
				r.cache(prompt, OpenOptions{Scope: s})
			}
		})
		pool(func(r *rig[buffer]) { // which has nothing of it itself
			require.NoError(t, r.pool.ClearScope(scopes[1], false))
			there[1] = 0
		})
		pool(func(r *rig[buffer]) { // and this one has it on the device
			x, _ := r.read(prompt, OpenOptions{Scope: scopes[3]})
			require.Equal(t, 20, x.wait(r).Cached)
			r.drop(x)
			require.NoError(t, r.pool.ClearScope(scopes[3], false))
			there[3] = 0
		})
		pool(func(r *rig[buffer]) { // what is on its way does not arrive
			r.cache(prompt, OpenOptions{Scope: scopes[1]})
			require.NoError(t, r.pool.ClearScope(scopes[1], false))
		})
		pool(func(r *rig[buffer]) { // and what is put again does
			r.cache(prompt, OpenOptions{Scope: scopes[3]})
			there[3] = 20
		})
		pool(func(r *rig[buffer]) {
			x, _ := r.read(prompt, OpenOptions{})
			require.Equal(t, 20, x.wait(r).Cached, "what is left is as it was")
			r.drop(x)
			require.NoError(t, r.pool.Clear(false))
			there = []int{0, 0, 0, 0, 0}
		})
	}
}

// In a pool with groups, too, whose blocks have keys of their own.
func TestClearedOnDiskOfGroups(t *testing.T) {
	cfg := manyKinds(ruleWindow, config.Group{Layers: []int{1, 3}})
	cfg.Model.Digest, cfg.Memory.RetainEvery, cfg.Tiers = []byte("weights"), 1, lasting(t.TempDir())
	prompt, other := sequence(1, 42), OpenOptions{Scope: prefix.Scope{Salt: []byte("a")}}
	pool := func(want, wantOther int, do func(w *grouped)) {
		t.Helper()
		w := newGrouped(t, cfg, 1)
		for o, want := range map[*OpenOptions]int{{}: want, &other: wantOther} {
			m, err := w.pool.Match(prompt, *o)
			require.NoError(t, err)
			require.Equal(t, want, m.Loading)
		}
		do(w)
		w.close()
	}
	pool(0, 0, func(w *grouped) {
		for _, o := range []OpenOptions{{}, other} {
			seq, _, err := w.pool.Open(prompt, o)
			require.NoError(t, err)
			s := &told{seq: seq}
			w.seqs = append(w.seqs, s)
			require.NoError(t, w.run(ask{s, prompt}))
			w.drop(s)
		}
	})
	pool(40, 40, func(w *grouped) { require.NoError(t, w.pool.ClearScope(other.Scope, false)) })
	pool(40, 0, func(w *grouped) { require.NoError(t, w.pool.Clear(false)) })
	pool(0, 0, func(*grouped) {})
}

// One pool at a time has a directory. The error of the next one says which it is, and the first one goes on.
func TestDiskInUse(t *testing.T) {
	dir := t.TempDir()
	r := tiered(t, 12, lasting(dir))
	r.cache(sequence(1, 23), OpenOptions{})
	be := openDevice(t)
	for range 2 {
		_, err := NewPool(be, r.pool.Config())
		var in disk.ErrInUse
		require.ErrorAs(t, err, &in)
		require.Equal(t, dir, filepath.Dir(in.Dir))
		require.DirExists(t, in.Dir)
		require.ErrorContains(t, err, "NewPool: ")
		require.False(t, errors.As(err, new(tier.ErrConfig)), "another directory is not the only way")
		require.Zero(t, be.Info().Buffers)
	}
	require.NoError(t, be.Close())
	r.flush()
	r.forget()
	x, m := r.read(sequence(1, 23), OpenOptions{})
	require.Equal(t, 20, m.Loading)
	require.Equal(t, 20, x.wait(r).Cached)
	r.drop(x)
	r.close()
	r = tiered(t, 12, lasting(dir))
	m, err := r.pool.Match(sequence(1, 23), OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, 20, m.Loading)
	r.close()
}

// held are the open descriptors and the mappings of this process that name a directory, and descriptors how many it has in all; none
// where there is no /proc.
func held(dir string) (in []string, descriptors int) {
	open, _ := os.ReadDir("/proc/self/fd")
	for _, f := range open {
		if to, _ := os.Readlink("/proc/self/fd/" + f.Name()); strings.HasPrefix(to, dir) {
			in = append(in, to)
		}
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, dir) {
			in = append(in, line)
		}
	}
	return in, len(open)
}

// Nothing of a pool above a disk runs on or stays open after Close, in the middle of loads and stores (case 20).
func TestNothingOfADiskStaysOpen(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	prompt, loads, stores := sequence(1, 399), 0, 0
	round := func(i int) {
		on, own := lasting(filepath.Join(dir, "pool")), func() error { return nil }
		var slow *moody
		if i%2 == 1 { // a disk of the program's own, whose calls may be in the middle of anything
			d, err := disk.Open(disk.Options{Dir: filepath.Join(dir, "own"), Payload: 1 << 16, Bytes: 64 << 20, Floor: 1})
			require.NoError(t, err)
			slow = &moody{Tier: d}
			on, own = config.Tiers{More: []tier.Tier{slow}}, d.Close
		}
		r := tiered(t, 240, on, func(c *Config) { c.Memory.Capacity = 400 })
		if runtime.GOOS == "linux" {
			in, _ := held(dir)
			require.NotEmpty(t, in, "or this test says nothing")
		}
		x, m := r.read(prompt, OpenOptions{})
		loads += r.moves().Loading
		if i < 2 { // the first round of each disk
			require.Zero(t, m.Loading)
			require.NoError(t, r.prefill(r.s, x))
			r.flush()
		} else {
			require.Equal(t, 396, m.Loading)
		}
		if slow != nil {
			slow.bad.Store(50)
		}
		y, _ := r.read(sequence(1000*(i+1), 399), OpenOptions{})
		require.NoError(t, r.prefill(r.s, y))
		require.NoError(t, r.s.Sync()) // a store starts after its step has ended,
		r.stats()                      // when the pool is next called
		s := r.moves()
		stores += s.Waiting + s.Moves.Jobs
		time.Sleep(time.Duration(i) * 200 * time.Microsecond)
		require.NoError(t, r.pool.Close())
		require.Zero(t, r.be.Info().Buffers)
		require.NoError(t, errors.Join(own(), r.s.Close(), r.be.Close()))
		in, _ := held(dir)
		require.Empty(t, in)
	}
	for i := range 4 { // what a process has once
		round(i)
	}
	goroutines := runtime.NumGoroutine()
	_, before := held(dir)
	loads, stores = 0, 0
	for i := range 24 {
		round(4 + i)
	}
	nothingRuns(t, goroutines)
	_, after := held(dir)
	require.LessOrEqual(t, after, before, "descriptors")
	require.Positive(t, loads, "loads were on their way")
	require.Positive(t, stores, "stores were on their way")
}
