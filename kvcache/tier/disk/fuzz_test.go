package disk

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/crc32c"
	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// directory is a file system with the files of a directory of 8 slots, for the options with it.
func directory(t require.TestingT, o Options, table, data []byte) Options {
	sys := newMemoryFS()
	o.system = sys
	c := codec{fingerprint: o.Namespace.Fingerprint, group: uint16(o.Namespace.Group), payload: o.Payload}
	var err error
	if o.Secret != nil {
		c.sealer, err = seal.New(o.Secret)
		require.NoError(t, err)
	}
	meta, err := json.Marshal(o.meta(&c))
	require.NoError(t, err)
	for name, b := range map[string][]byte{"meta.json": meta, "table": table, "data": data} {
		sys.files["/cache/"+name] = &memoryFile{fs: sys, path: "/cache/" + name, data: bytes.Clone(b)}
	}
	return o
}

// fuzzed opens a directory, reads all that it has, each of which holds is told of, and uses it.
func fuzzed(t *testing.T, o Options, holds func(e *entry, payload []byte)) {
	d, err := Open(o)
	if err != nil {
		require.ErrorAs(t, err, new(tier.ErrConfig))
		return
	}
	require.NoError(t, d.index.check())
	require.LessOrEqual(t, o.system.(*memoryFS).used(), o.Bytes)
	for _, s := range append([]slot(nil), d.index.slots...) {
		if s.state != held {
			continue
		}
		dst := bytes.Repeat([]byte{0x5a}, int(s.length))
		n, err := d.Get(ctx, []tier.Block{{Key: s.key, Bytes: dst}})
		require.NoError(t, err)
		if n == 1 {
			holds(&s.entry, dst)
		}
	}
	blocks, room := chainOf(101, 3), d.limit-int(d.index.bad)-len(d.index.byKey) >= 3 // for them, whatever may be given up
	require.NoError(t, d.Put(ctx, blocks))
	require.NoError(t, d.index.check())
	is, err := d.Has(ctx, []tier.Key{blocks[0].Key, blocks[1].Key, blocks[2].Key})
	require.NoError(t, err)
	require.True(t, is == 3 || !room, "what is put there is there")
	require.NoError(t, d.Delete(ctx, []tier.Key{blocks[1].Key, keyOf(1)}))
	require.NoError(t, d.index.check())
	require.NoError(t, d.Close())
	d, err = Open(o)
	require.NoError(t, err)
	require.NoError(t, d.index.check())
	is, err = d.Has(ctx, []tier.Key{blocks[0].Key, blocks[1].Key})
	require.NoError(t, err)
	require.True(t, is == 1 || !room)
	require.NoError(t, d.Close())
}

// FuzzTable reads tables of any bytes.
func FuzzTable(f *testing.F) {
	o := options(nil, 8)
	c := codec{fingerprint: o.Namespace.Fingerprint, group: uint16(o.Namespace.Group), payload: payload}
	head, _ := c.header()
	b := make([]byte, entryBytes)
	_ = c.writeEntry(b, 0, &entry{key: keyOf(1), length: 10})
	f.Add(append(head, b...), true)
	f.Add([]byte(magic), false)
	f.Fuzz(func(t *testing.T, table []byte, repair bool) {
		if repair { // so that it comes further than the checksums
			for at := page - 4; at+4 <= len(table); at += entryBytes {
				from := max(0, at+4-entryBytes)
				if at == page-4 {
					from = 0
				}
				binary.LittleEndian.PutUint32(table[at:], crc32c.Sum(table[from:at]))
			}
		}
		fuzzed(t, directory(t, o, table, make([]byte, 5*2*page)), func(e *entry, payload []byte) {
			require.Equal(t, make([]byte, e.length), payload)
		})
	})
}

// FuzzSlots reads tables whose entries are whole and say anything, sealed or not: 12 bytes a slot are its numbers.
func FuzzSlots(f *testing.F) {
	one := func(key, parent, flags, use byte, length uint32) []byte {
		return binary.LittleEndian.AppendUint32([]byte{key, parent, flags, use, 0, 0, 0, 0}, length)
	}
	f.Add(bytes.Join([][]byte{one(1, 0, 1, 1, payload), one(2, 1, 1, 2, payload), one(1, 0, 0, 3, 7), one(3, 3, 1, 4, 1)}, nil), false, uint8(0))
	f.Add(bytes.Join([][]byte{one(2, 1, 1, 1, payload), one(1, 2, 1, 2, payload), one(0, 0, 1, 3, 9), one(4, 9, 3, 0, 0)}, nil), true, uint8(99))
	f.Fuzz(func(t *testing.T, numbers []byte, sealed bool, short uint8) {
		o := options(nil, 8)
		c := codec{fingerprint: o.Namespace.Fingerprint, group: uint16(o.Namespace.Group), payload: payload}
		if sealed {
			o.Secret = bytes.Repeat([]byte{3}, seal.SecretBytes)
			c.sealer, _ = seal.New(o.Secret)
		}
		table, err := c.header()
		require.NoError(t, err)
		var data []byte
		for i := 0; len(numbers) >= 12 && i < 12; i, numbers = i+1, numbers[12:] {
			key := func(n byte) tier.Key {
				if n%8 == 0 {
					return tier.Key{}
				}
				return keyOf(int(n % 8))
			}
			e := entry{key: key(numbers[0]), parent: key(numbers[1]), root: tier.Key{numbers[1] % 2, 7}, use: uint64(numbers[3]),
				generation: uint64(binary.LittleEndian.Uint32(numbers[4:])), length: binary.LittleEndian.Uint32(numbers[8:])}
			b := make([]byte, entryBytes)
			what := content(e.key, int(e.length%(2*page)))
			if numbers[2]&1 != 0 {
				e.sum = (&tier.Block{Key: e.key, Bytes: what}).Summed()
			}
			stored := what
			if sealed {
				s, err := c.sealer.Seal(nil, &e.nonce, what, c.about('D', i, &e))
				require.NoError(t, err)
				stored = s[:len(what)]
				copy(e.tag[:], s[len(what):])
			}
			require.NoError(t, c.writeEntry(b, i, &e))
			table, data = append(table, b...), append(append(data, stored...), make([]byte, 2*page-len(stored))...)
		}
		data = data[:max(0, len(data)-int(short)*97)]
		fuzzed(t, directory(t, o, table, data), func(e *entry, payload []byte) {
			require.True(t, bytes.Equal(content(e.key, int(e.length)), payload), "wrong bytes under a key")
		})
	})
}

// FuzzDamage overwrites a part of one file of a good directory, sealed or not, and makes the file shorter or longer.
func FuzzDamage(f *testing.F) {
	var good [2]*memoryFS
	var os [2]Options
	for i := range good {
		good[i] = newMemoryFS()
		os[i] = options(good[i], 8)
		if i == 1 {
			os[i].Secret = bytes.Repeat([]byte{3}, seal.SecretBytes)
		}
		d, err := Open(os[i])
		require.NoError(f, err)
		require.NoError(f, d.Put(ctx, chainOf(1, 5)))
		require.NoError(f, d.Close())
	}
	f.Add(uint8(0), false, uint16(page+100), []byte{1, 2, 3}, int16(0))
	f.Add(uint8(1), true, uint16(2*page), []byte("payload"), int16(-500))
	f.Add(uint8(2), true, uint16(20), []byte("1"), int16(1))
	f.Fuzz(func(t *testing.T, which uint8, sealed bool, at uint16, by []byte, longer int16) {
		i := 0
		if sealed {
			i = 1
		}
		files := map[string][]byte{}
		for path, file := range good[i].files {
			files[path] = bytes.Clone(file.data)
		}
		name := []string{"/cache/table", "/cache/data", "/cache/meta.json"}[which%3]
		b := files[name]
		copy(b[int(at)%len(b):], by)
		if n := len(b) + int(longer); n < len(b) {
			b = b[:max(n, 0)]
		} else {
			b = append(b, bytes.Repeat(append([]byte{0}, by...), n)[:n-len(b)]...)
		}
		files[name] = b
		o := directory(t, os[i], files["/cache/table"], files["/cache/data"])
		o.system.(*memoryFS).files["/cache/meta.json"].data = files["/cache/meta.json"]
		fuzzed(t, o, func(e *entry, payload []byte) {
			require.True(t, bytes.Equal(content(e.key, len(payload)), payload), "wrong bytes under a key")
		})
	})
}

// FuzzMeta reads any meta.json.
func FuzzMeta(f *testing.F) {
	o := options(nil, 4)
	c := codec{payload: payload}
	good, _ := json.Marshal(o.meta(&c))
	f.Add(good)
	f.Add([]byte(`{"format":"FKVSLAB1"} 1`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMeta(b)
		if err != nil {
			return
		}
		require.Empty(t, m.differs(m))
		again, err := json.Marshal(m)
		require.NoError(t, err)
		if len(again) <= metaLargest {
			r, err := readMeta(again)
			require.NoError(t, err)
			require.Empty(t, r.differs(m))
		}
	})
}
