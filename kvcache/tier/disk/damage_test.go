package disk

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// A flipped bit anywhere is a miss or an error, never a wrong byte; where it is in a payload, it is counted, and the slot is
// not used again.
func TestFlippedBits(t *testing.T) {
	for _, secret := range [][]byte{nil, bytes.Repeat([]byte{3}, secretBytes)} {
		sys := newMemoryFS()
		o := options(sys, 3)
		o.Secret = secret
		d, err := Open(o)
		require.NoError(t, err)
		require.NoError(t, d.Put(ctx, chainOf(1, 3)))
		require.NoError(t, d.Close())
		pristine := sys.crash(len(sys.log), 512, func() bool { return true })
		step := 83
		if testsize.Full() {
			step = 1
		}
		for path, f := range pristine.files {
			for at := 0; at < len(f.data); at++ {
				if at%step != 0 && path != "/cache/meta.json" {
					continue
				}
				o.system = pristine.crash(0, 1, nil)
				for path, f := range pristine.files {
					fresh := &memoryFile{fs: o.system.(*memoryFS), path: path, data: bytes.Clone(f.data)}
					o.system.(*memoryFS).files[path] = fresh
				}
				o.system.(*memoryFS).files[path].data[at] ^= 1 << (at % 8)
				d, err := Open(o)
				if err != nil {
					require.ErrorAs(t, err, new(tier.ErrConfig), "byte %d of %s", at, path)
					continue
				}
				is, s := found(t, d, 3), d.Stats()
				slot, in := at/(2*page), at%(2*page)
				if path == "/cache/data" && in < sizeOf(slot+1) {
					require.Len(t, is, 2, "byte %d of data", at)
					require.Equal(t, [2]int64{1, payload}, [2]int64{s.Corrupt, s.QuarantinedCapacity})
					require.NoError(t, d.Put(ctx, chainOf(1, 3)))
					require.NotContains(t, d.index.byKey, d.index.slots[slot].key, "not in the same slot")
				} else if path == "/cache/table" {
					require.Less(t, len(is), 3, "byte %d of table", at)
					require.Positive(t, s.Corrupt)
				} else {
					require.Len(t, is, 3, "byte %d of %s", at, path)
				}
				require.NoError(t, d.Close())
			}
		}
	}
}

// What lies in another slot, or comes from another directory, is not taken for what was put here.
func TestExchangedSlots(t *testing.T) {
	sys := newMemoryFS()
	o := options(sys, 3)
	o.Secret = make([]byte, secretBytes)
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
