package disk

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// A flipped bit anywhere is a miss or an error, never a wrong byte; where it is in a payload, it is counted, and the slot is
// not used again before the directory is reopened. Full tests flip every bit that is stored, others some.
func TestFlippedBits(t *testing.T) {
	for _, secret := range [][]byte{nil, bytes.Repeat([]byte{3}, seal.SecretBytes)} {
		sys := newMemoryFS()
		o := options(sys, 3)
		o.Secret = secret
		d, err := Open(o)
		require.NoError(t, err)
		require.NoError(t, d.Put(ctx, chainOf(1, 3)))
		require.NoError(t, d.Close())
		for path, f := range sys.files {
			step := 83
			if testsize.Full() || path == "/cache/meta.json" {
				step = 1
			}
			for at := 0; at < len(f.data); at += step {
				for bit := range 8 {
					if testsize.Full() || bit == at%8 {
						flip(t, o, sys, path, at, bit)
					}
				}
			}
		}
	}
}

// flip opens a copy of a directory, of 3 blocks in as many slots, with another bit.
func flip(t *testing.T, o Options, sys *memoryFS, path string, at, bit int) {
	flipped := newMemoryFS()
	for path, f := range sys.files {
		flipped.files[path] = &memoryFile{fs: flipped, path: path, data: bytes.Clone(f.data)}
	}
	flipped.files[path].data[at] ^= 1 << bit
	o.system = flipped
	d, err := Open(o)
	if err != nil {
		require.ErrorAs(t, err, new(tier.ErrConfig), "bit %d of byte %d of %s", bit, at, path)
		require.Zero(t, flipped.open)
		return
	}
	is, s := found(t, d, 3), d.Stats()
	slot, in := at/(2*page), at%(2*page)
	switch {
	case path == "/cache/data" && in < sizeOf(slot+1):
		require.Len(t, is, 2, "bit %d of byte %d of data", bit, at)
		require.Equal(t, [2]int64{1, payload}, [2]int64{s.Corrupt, s.QuarantinedCapacity})
		require.NoError(t, d.Put(ctx, chainOf(1, 3)))
		require.NotContains(t, d.index.byKey, d.index.slots[slot].key, "not in the same slot")
		require.Len(t, found(t, d, 3), 2, "there are but two")
		require.NoError(t, d.Close())
		d, err = Open(o)
		require.NoError(t, err)
		require.Zero(t, d.Stats().QuarantinedCapacity)
		require.NoError(t, d.Put(ctx, chainOf(1, 3)))
		require.Len(t, found(t, d, 3), 3, "all slots are used again")
	case path == "/cache/table":
		require.Less(t, len(is), 3, "bit %d of byte %d of table", bit, at)
		require.Positive(t, s.Corrupt)
	default:
		require.Len(t, is, 3, "bit %d of byte %d of %s", bit, at, path)
	}
	require.NoError(t, d.Close())
}

// Of two entries of one key, which a crash may leave, the one used last counts, and when it is forgotten the other one does not come back.
func TestTwoEntriesOfOneKey(t *testing.T) {
	for newer := range 2 {
		o := options(newMemoryFS(), 4)
		d, sys, _ := opened(t, o)
		require.NoError(t, d.Put(ctx, []tier.Block{blockOf(3, 0), blockOf(6, 0)})) // of one length
		e := d.index.slots[0].entry
		require.NoError(t, d.Close())
		for i := range 2 {
			e.use, e.generation = uint64(10+i*(1-2*newer)), uint64(20+i)
			require.NoError(t, d.codec.writeEntry(sys.files["/cache/table"].data[page+i*entryBytes:][:entryBytes], i, &e))
			copy(sys.files["/cache/data"].data[i*2*page:], content(keyOf(3), sizeOf(3)))
		}
		d, _, _ = opened(t, o)
		require.NoError(t, d.index.check())
		require.Equal(t, map[int]bool{3: true}, found(t, d, 9))
		require.Equal(t, int32(1-newer), d.index.byKey[keyOf(3)])
		require.NoError(t, d.Delete(ctx, []tier.Key{keyOf(3)}))
		require.NoError(t, d.Close())
		d, _, _ = opened(t, o)
		require.Empty(t, found(t, d, 9))
		require.NoError(t, d.Close())
	}
}

// What lies in another slot, or comes from another directory, is not taken for what was put here.
func TestExchangedSlots(t *testing.T) {
	sys := newMemoryFS()
	o := options(sys, 3)
	o.Secret = make([]byte, seal.SecretBytes)
	d, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, d.Put(ctx, []tier.Block{blockOf(1, 0), blockOf(4, 0), blockOf(7, 0)})) // of one length
	require.NoError(t, d.Close())
	table, data := sys.files["/cache/table"].data, sys.files["/cache/data"].data
	swap := func(b []byte, i, j, n int) {
		x := bytes.Clone(b[i : i+n])
		copy(b[i:], b[j:j+n])
		copy(b[j:], x)
	}
	swap(table, page, page+entryBytes, entryBytes)
	swap(data, 0, 2*page, 2*page)
	d, err = Open(o)
	require.NoError(t, err)
	require.Equal(t, map[int]bool{7: true}, found(t, d, 8))
	require.Equal(t, int64(2), d.Stats().Corrupt)
	require.NoError(t, d.Close())
}
