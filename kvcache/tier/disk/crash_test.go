package disk

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

var crashes = flag.Int("crashes", 2, "ways in which each crash of TestCrash keeps what was not synced")

// settled reports for each of the first changes whether a sync has brought it to the disk. A failed sync may keep later ones from
// bringing earlier writes there; it does not undo changes of length.
func (m *memoryFS) settled(changes int) []bool {
	out, pending := make([]bool, changes), map[string][]int{}
	for i, o := range m.log[:changes] {
		switch o.kind {
		case "sync":
			for _, j := range pending[o.file] {
				out[j] = true
			}
			delete(pending, o.file)
		case "lost":
			pending[o.file] = slices.DeleteFunc(pending[o.file], func(j int) bool { return m.log[j].kind == "write" })
		default:
			pending[o.file] = append(pending[o.file], i)
		}
	}
	return out
}

// crash is the disk of a machine that crashed after some changes: all that was synced, and of the rest what keep chooses, in
// sectors of some bytes.
func (m *memoryFS) crash(changes int, sector int, keep func() bool) *memoryFS {
	out, settled := newMemoryFS(), m.settled(changes)
	for i, o := range m.log[:changes] {
		if out.files[o.file] == nil {
			out.files[o.file] = &memoryFile{fs: out, path: o.file}
		}
		f, kept := out.files[o.file], func() bool { return settled[i] || keep() }
		switch o.kind {
		case "whole":
			f.data = bytes.Clone(o.data)
		case "truncate":
			if kept() {
				f.cut(o.at)
			}
		case "write":
			for at := 0; at < len(o.data); {
				end := min(len(o.data), at+sector-int(o.at+int64(at))%sector)
				if kept() {
					f.put(o.at+int64(at), o.data[at:end])
				}
				at = end
			}
		}
	}
	for path, f := range out.files { // its content now is safe
		out.log = append(out.log, op{file: path, kind: "whole", data: bytes.Clone(f.data)})
	}
	return out
}

// found checks that all that is found is right, and returns the numbers of what is.
func found(t *testing.T, d *Tier, numbers int) map[int]bool {
	out := map[int]bool{}
	for n := 1; n <= numbers; n++ {
		b := bytes.Repeat([]byte{0x5a}, sizeOf(n))
		got, err := d.Get(ctx, []tier.Block{{Key: keyOf(n), Bytes: b}})
		require.NoError(t, err)
		if got == 1 {
			require.True(t, bytes.Equal(content(keyOf(n), sizeOf(n)), b), "wrong bytes under key %d", n)
			out[n] = true
		}
	}
	return out
}

// synced is what was there when Sync returned.
type synced struct {
	changes int           // by then
	slots   map[int]int32 // of the numbers of blocks
}

// Whatever a crash at any change keeps of what was not synced, what is found is right; what was synced and not overwritten
// or forgotten since is found.
func TestCrash(t *testing.T) {
	for _, secret := range [][]byte{nil, bytes.Repeat([]byte{3}, seal.SecretBytes)} {
		for _, durable := range []bool{false, true} {
			t.Run(fmt.Sprintf("secret=%v/durable=%v", secret != nil, durable), func(t *testing.T) {
				sys := newMemoryFS()
				o := options(sys, 6)
				o.Secret, o.Durable = secret, durable
				const numbers = 18
				points, deleted := history(t, o, sys, numbers)
				rng, ways := rand.New(rand.NewPCG(1, 2)), *crashes
				if testsize.Full() {
					ways *= 8
				}
				for at := range len(sys.log) + 1 {
					// The process was killed: the system keeps all.
					checkCrashed(t, o, sys, sys.crash(at, page, func() bool { return true }), at, points, deleted, numbers)
					for order := range ways { // the machine crashed
						keep := []func() bool{
							func() bool { return false },
							func() bool { return rng.IntN(2) == 0 }, func() bool { return rng.IntN(8) == 0 }, func() bool { return rng.IntN(8) != 0 },
						}[(at+order)%4]
						crashed := sys.crash(at, []int{512, page}[(at+order)/4%2], keep)
						checkCrashed(t, o, sys, crashed, at, points, deleted, numbers)
					}
				}
			})
		}
	}
}

// history puts, reads, deletes, syncs and reopens, and returns what must not be lost. deleted is after which change a block was.
func history(t *testing.T, o Options, sys *memoryFS, numbers int) (points []synced, deleted map[int]int) {
	d, err := Open(o)
	require.NoError(t, err)
	deleted = map[int]int{}
	note := func() {
		p := synced{len(sys.log), map[int]int32{}}
		for n := 1; n <= numbers; n++ {
			if i, ok := d.index.byKey[keyOf(n)]; ok {
				p.slots[n] = i
			}
		}
		points = append(points, p)
	}
	for n := 1; n <= numbers; n++ {
		before := maps.Clone(d.index.byKey)
		require.NoError(t, d.Put(ctx, chainOf(n, 1+n%2)))
		for m := 1; m < n && n%5 == 0; m++ {
			_, was := before[keyOf(m)]
			if _, is := d.index.byKey[keyOf(m)]; was && !is { // given up just now; nothing is synced yet
				require.NoError(t, d.Delete(ctx, []tier.Key{keyOf(m)}))
				deleted[m] = len(sys.log)
			}
		}
		if n%4 == 0 {
			require.NoError(t, d.Sync())
		}
		if n%4 == 0 || o.Durable {
			note()
		}
		if n%7 == 0 {
			require.NoError(t, d.Delete(ctx, []tier.Key{keyOf(n - 1)}))
			deleted[n-1] = len(sys.log)
		}
		if n == 11 {
			require.NoError(t, d.Close())
			d, err = Open(o)
			require.NoError(t, err)
			note()
		}
	}
	require.NoError(t, d.Close())
	return points, deleted
}

func checkCrashed(t *testing.T, o Options, sys, crashed *memoryFS, at int, points []synced, deleted map[int]int, numbers int) {
	o.system = crashed
	d, err := Open(o)
	require.NoError(t, err, "after %d changes", at)
	defer d.Close()
	is := found(t, d, numbers)
	for n, after := range deleted {
		if at >= after {
			require.NotContains(t, is, n, "deleted before change %d, found after %d", after, at)
		}
	}
	var last synced
	for _, p := range points {
		if p.changes <= at {
			last = p
		}
	}
	for n, slot := range last.slots {
		overwritten := false
		for _, c := range sys.log[last.changes:at] {
			overwritten = overwritten || c.file == "/cache/table" && c.kind == "write" && c.at == page+int64(slot)*entryBytes
		}
		if !overwritten {
			require.Contains(t, is, n, "synced before change %d, lost after %d", last.changes, at)
		}
	}
	require.NoError(t, d.Put(ctx, chainOf(100, 3))) // goes on
	n, err := d.Has(ctx, []tier.Key{keyOf(100), keyOf(101), keyOf(102)})
	require.NoError(t, err)
	require.Equal(t, min(3, len(d.index.slots)-int(d.index.bad)), n)
}
