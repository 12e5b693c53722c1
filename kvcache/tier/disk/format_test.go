package disk

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/crc32c"
	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

func unhex(t require.TestingT, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// The bytes are the same on every machine, whatever its order of bytes.
func TestFormat(t *testing.T) {
	c := codec{fingerprint: tier.Key{0xfa, 0xce}, group: 0x0102, payload: 0x010203}
	head, err := c.header()
	require.NoError(t, err)
	want := make([]byte, page)
	copy(want, "FKVSLAB1")
	copy(want[8:], unhex(t, "02000000"+"00010000"+"0302010000000000"+"0010010000000000"+"face"))
	copy(want[64:], unhex(t, "02010000"))
	require.Equal(t, want[:page-4], head[:page-4])
	require.Equal(t, int64(0x11000), c.stride())

	e := entry{key: tier.Key{1, 2}, parent: tier.Key{3, 4}, root: tier.Key{5, 6}, length: 0x010203, sum: 0xe3069283,
		generation: 0x1122334455667788, use: 0x99}
	b := make([]byte, entryBytes)
	require.NoError(t, c.writeEntry(b, 7, &e))
	want = make([]byte, entryBytes)
	copy(want, unhex(t, "0102"))
	copy(want[32:], unhex(t, "0304"))
	copy(want[64:], unhex(t, "0506"))
	copy(want[96:], unhex(t, "03020100"+"839206e3"+"8877665544332211"+"9900000000000000"))
	require.Equal(t, want[:entryBytes-4], b[:entryBytes-4])
	got, ok := c.readEntry(b, 7)
	require.True(t, ok)
	require.Equal(t, e, got)
	require.Equal(t, uint32(0xe3069283), crc32c.Sum([]byte("123456789")))
	require.Equal(t, "ca1ed5d3", hex.EncodeToString(head[page-4:]))
	require.Equal(t, "a8499be9", hex.EncodeToString(b[entryBytes-4:]))
}

// Payloads are what machines of one order of bytes have in memory: one of the other order refuses them, and has a directory of its own.
func TestByteOrder(t *testing.T) {
	o := options(newMemoryFS(), 8)
	d, sys, _ := opened(t, o)
	require.NoError(t, d.Put(ctx, chainOf(1, 3)))
	require.NoError(t, d.Close())
	other := o
	other.foreign = true
	for _, what := range []string{"byte_order", "order of bytes"} { // meta.json says it, and the table
		_, err := Open(other)
		require.ErrorAs(t, err, new(tier.ErrConfig))
		require.ErrorContains(t, err, what)
		delete(sys.files, "/cache/meta.json")
	}
	d, _, _ = opened(t, o)
	require.Len(t, found(t, d, 3), 3)
	require.NoError(t, d.Close())

	other.system = newMemoryFS()
	d, sys, _ = opened(t, other)
	require.NoError(t, d.Put(ctx, chainOf(1, 3)))
	require.NoError(t, d.Close())
	require.Equal(t, []byte(magic+"\x02\x00\x00\x00\x00\x01\x00\x00"), sys.files["/cache/table"].data[:16], "numbers of the table are little-endian on both")
	d, _, _ = opened(t, other)
	require.Len(t, found(t, d, 3), 3)
}

// Nothing that was put can be seen in the files of an encrypted store, and no nonce in two places.
func TestEncrypted(t *testing.T) {
	o := options(newMemoryFS(), 8)
	o.Secret = bytes.Repeat([]byte{5}, seal.SecretBytes)
	d, sys, _ := opened(t, o)
	nonces := map[[seal.NonceBytes]byte]bool{}
	for range 3 {
		for n := 1; n < 20; n++ {
			require.NoError(t, d.Put(ctx, []tier.Block{blockOf(n, 0)}))
		}
		require.NoError(t, d.Close())
		d, _, _ = opened(t, o)
	}
	for _, c := range sys.log {
		if c.kind == "write" && c.file == "/cache/table" && len(c.data) == entryBytes {
			nonce := [seal.NonceBytes]byte(c.data)
			require.False(t, nonces[nonce])
			nonces[nonce] = true
		}
		for n := 1; n < 20; n++ {
			require.NotContains(t, string(c.data), string(content(keyOf(n), 16)))
			key := keyOf(n)
			require.NotContains(t, string(c.data), string(key[:]))
		}
	}
	require.Greater(t, len(nonces), 100)
}

// A directory of version 1, whose sums do not cover keys, is refused, and the error says what to do.
func TestEarlierVersion(t *testing.T) {
	o := options(newMemoryFS(), 8)
	d, sys, _ := opened(t, o)
	require.NoError(t, d.Put(ctx, chainOf(1, 3)))
	require.NoError(t, d.Close())
	meta, table := sys.files["/cache/meta.json"], sys.files["/cache/table"].data
	meta.data = bytes.Replace(meta.data, []byte(`"version": 2`), []byte(`"version": 1`), 1)
	table[8] = 1
	binary.LittleEndian.PutUint32(table[page-4:], crc32c.Sum(table[:page-4]))
	for range 2 { // meta.json says it, and the table
		_, err := Open(o)
		require.ErrorAs(t, err, new(tier.ErrConfig))
		require.ErrorContains(t, err, "version 1")
		require.ErrorContains(t, err, "remove")
		delete(sys.files, "/cache/meta.json")
	}
	require.Equal(t, byte(1), sys.files["/cache/table"].data[8], "it stays as it was")
}
