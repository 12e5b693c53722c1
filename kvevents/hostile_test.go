package kvevents_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/stretchr/testify/require"
)

// array32 is an array of n elements, whose bytes are these.
func array32(n int, elements []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0xdd}, uint32(n)), elements...)
}

// What a Decoder keeps is bounded by the largest payload, not by the number of payloads: here each has its keys in another block.
func TestMemoryOfManyPayloads(t *testing.T) {
	const n, blocks = 50_000, 40
	var d kvevents.Decoder
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range blocks {
		keys := append(bytes.Repeat([]byte{0xc0}, i), array32(n, bytes.Repeat([]byte{0xa0}, n))...)
		keys = append(keys, bytes.Repeat([]byte{0xc0}, blocks-1-i)...)
		event := append(append(append([]byte{0x82}, append(pack("type"), pack("BlockStored")...)...), pack("extra_keys")...), array32(blocks, keys)...)
		_, err := d.Decode(append(append([]byte{0x93, 0, 0x91}, event...), 0), func(_ kvevents.Batch, e kvevents.Event) error {
			require.Len(t, e.(*kvevents.Stored).ExtraKeys[i], n)
			return nil
		})
		require.NoError(t, err)
	}
	require.Less(t, heap()-before, uint64(60*(n+1000)))
	runtime.KeepAlive(&d)
}

// Lists that claim all the bytes that are left, in a list that claims them, too.
func TestMemoryOfClaims(t *testing.T) {
	const n = 1 << 20
	event := append(append(pack("type"), pack("BlockStored")...), pack("extra_keys")...)
	payload := append([]byte{0x93, 0, 0x91, 0x82}, event...)
	payload = append(payload, array32(n+5, array32(n, make([]byte, n)))...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := new(kvevents.Decoder).Decode(payload, nil)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, kvevents.ErrPayload{})
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(60*n))
}

// An error does not repeat what a publisher sent without bound.
func TestErrorsAreShort(t *testing.T) {
	_, _, err := decode(batch(stored(strings.Repeat("x\n", 1<<16), nested(40))))
	require.ErrorIs(t, err, kvevents.ErrPayload{})
	require.Less(t, len(err.Error()), 300)
	require.NotContains(t, err.Error(), "\n")
}
