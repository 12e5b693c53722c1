package kvevents_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/stretchr/testify/require"
)

// dict is a map in an order; list is an array.
type (
	dict []any
	list []any
)

// pack is a value in MessagePack, in forms that engines do not write: all lengths have 32 bits.
func pack(v any) (b []byte) {
	length := func(code byte, n int) { b = binary.BigEndian.AppendUint32([]byte{code}, uint32(n)) }
	switch v := v.(type) {
	case nil:
		return []byte{0xc0}
	case bool:
		return []byte{0xc2 + map[bool]byte{true: 1}[v]}
	case int:
		return binary.BigEndian.AppendUint64([]byte{0xd3}, uint64(v)) // with a sign, also where it is positive
	case uint64:
		return binary.BigEndian.AppendUint64([]byte{0xcf}, v)
	case float32:
		return binary.BigEndian.AppendUint32([]byte{0xca}, math.Float32bits(v))
	case float64:
		return binary.BigEndian.AppendUint64([]byte{0xcb}, math.Float64bits(v))
	case string:
		length(0xdb, len(v))
		return append(b, v...)
	case []byte:
		length(0xc6, len(v))
		return append(b, v...)
	case list:
		length(0xdd, len(v))
		for _, x := range v {
			b = append(b, pack(x)...)
		}
	case dict:
		length(0xdf, len(v)/2)
		for _, x := range v {
			b = append(b, pack(x)...)
		}
	}
	return b
}

// batch is a payload with events.
func batch(events ...any) []byte { return pack(list{1.5, list(events), 0}) }

func stored(more ...any) dict {
	return append(dict{"type", "BlockStored", "block_hashes", list{7}, "parent_block_hash", nil, "token_ids", list{1, 2}, "block_size", 2}, more...)
}

// What other publishers, and other versions of these, send.
func TestShapes(t *testing.T) {
	two := kvevents.Stored{Hashes: numbers(7), Tokens: []uint32{1, 2}, BlockSize: 2}
	with := func(change func(*kvevents.Stored)) *kvevents.Stored {
		e := two
		change(&e)
		return &e
	}
	for _, c := range []struct {
		name  string
		event any
		want  kvevents.Event
	}{
		{"the shortest map", stored(), &two},
		{"an array of SGLang, no medium", list{"BlockStored", list{7}, nil, list{1, 2}, 2, nil}, &two},
		{"an array that ends after the tokens' size", list{"BlockStored", list{7}, nil, list{1, 2}, 2}, &two},
		{"the type last", dict{"block_size", 2, "token_ids", list{1, 2}, "block_hashes", list{7}, "type", "BlockStored"}, &two},
		{"the type as bytes", dict{"type", []byte("BlockStored"), "block_hashes", list{7}, "token_ids", list{1, 2}, "block_size", 2}, &two},
		{"a hash with a sign", stored("block_hashes", list{-7}), with(func(e *kvevents.Stored) { e.Hashes = numbers(signed(-7)) })},
		{"a hash without a sign", stored("block_hashes", list{uint64(1<<64 - 7)}), with(func(e *kvevents.Stored) { e.Hashes = numbers(signed(-7)) })},
		{"a hash of 32 bytes", stored("block_hashes", list{bytes32}), with(func(e *kvevents.Stored) {
			e.Hashes = []kvevents.Hash{{Number: binary.BigEndian.Uint64(bytes32[24:]), Bytes: bytes32}}
		})},
		{"a hash of three bytes", stored("block_hashes", list{[]byte{1, 2, 3}}), with(func(e *kvevents.Stored) { e.Hashes = []kvevents.Hash{{Number: 0x010203, Bytes: []byte{1, 2, 3}}} })},
		{"a hash of no bytes", stored("block_hashes", list{[]byte{}}), with(func(e *kvevents.Stored) { e.Hashes = []kvevents.Hash{{Bytes: []byte{}}} })},
		{"a parent of bytes", stored("parent_block_hash", bytes32), with(func(e *kvevents.Stored) { e.Parent, e.HasParent = kvevents.HashOf(bytes32), true })},
		{"a parent that is 0", stored("parent_block_hash", 0), with(func(e *kvevents.Stored) { e.HasParent = true })},
		{"pairs of tokens", stored("token_ids", list{list{1, 2}, list{2, 3}}), with(func(e *kvevents.Stored) { e.Tokens, e.Pairs = []uint32{1, 2, 2, 3}, true })},
		{"no tokens", stored("token_ids", nil), with(func(e *kvevents.Stored) { e.Tokens = nil })},
		{"no hashes", stored("block_hashes", nil), with(func(e *kvevents.Stored) { e.Hashes = nil })},
		{"the largest token", stored("token_ids", list{uint64(1<<32 - 1)}), with(func(e *kvevents.Stored) { e.Tokens = []uint32{1<<32 - 1} })},
		{"SGLang's salt", stored("cache_salt", "s"), with(func(e *kvevents.Stored) { e.CacheSalt = "s" })},
		{"vLLM's salt", stored("extra_keys", list{list{"s"}}), with(func(e *kvevents.Stored) { e.ExtraKeys = [][]kvevents.Key{{{Text: "s"}}} })},
		{"an image, a number and a name", stored("extra_keys", list{list{list{"hash", 3}, 5, "adapter"}, nil}), with(func(e *kvevents.Stored) {
			e.ExtraKeys = [][]kvevents.Key{{{Raw: pack(list{"hash", 3})}, {Raw: pack(5)}, {Text: "adapter"}}, nil}
		})},
		{"extra keys that are nil", stored("extra_keys", nil), &two},
		{"extra keys of no block", stored("extra_keys", list{}), with(func(e *kvevents.Stored) { e.ExtraKeys = [][]kvevents.Key{} })},
		{"texts and a group that are nil", stored("medium", nil, "lora_name", nil, "group_idx", nil, "kv_cache_spec_kind", nil, "session_id", nil, "kv_cache_spec_sliding_window", nil), &two},
		{"what is newer than this package", stored("tomorrow", dict{"a", list{1, 2.5}}, "more", true), with(func(e *kvevents.Stored) {
			e.Unknown = []kvevents.Field{{Name: "tomorrow", Value: pack(dict{"a", list{1, 2.5}})}, {Name: "more", Value: pack(true)}}
		})},
		{"a long array", list{"BlockRemoved", list{7}, "CPU", 1, "LOCAL", "disk-0", "new"}, &kvevents.Removed{Hashes: numbers(7), Medium: "CPU", Group: 1, HasGroup: true, Locality: "LOCAL", Ownership: "disk-0",
			Unknown: []kvevents.Field{{Value: pack("new")}}}},
		{"an array of SGLang 0.5.18 with a salt and a session", list{"BlockStored", list{7}, nil, list{1, 2}, 2, nil, "GPU", dict{"cache_salt", "s", "session_id", "t", "new", 1}}, with(func(e *kvevents.Stored) {
			e.Medium, e.CacheSalt, e.SessionID, e.Unknown = "GPU", "s", "t", []kvevents.Field{{Name: "new", Value: pack(1)}}
		})},
		{"a field twice: the last counts", stored("block_size", 3, "token_ids", list{5}), with(func(e *kvevents.Stored) { e.BlockSize, e.Tokens = 3, []uint32{5} })},
		{"cleared, with a field", dict{"type", "AllBlocksCleared", "why", "reset"}, &kvevents.Cleared{Unknown: []kvevents.Field{{Name: "why", Value: pack("reset")}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			events, skipped := mustDecode(t, batch(c.event))
			require.Len(t, events, 1)
			require.Zero(t, skipped)
			requireEvent(t, c.want, events[0])
			for _, f := range []kvevents.Form{kvevents.VLLM, kvevents.SGLang} { // and written again, it is the same
				again, _ := mustDecode(t, f.AppendBatch(nil, kvevents.Batch{}, events...))
				requireEvent(t, c.want, again[0])
			}
		})
	}
}

func TestHeadsOfBatches(t *testing.T) {
	for name, payload := range map[string][]byte{
		"no rank": pack(list{1.5, list{stored()}}), "a rank that is nil": pack(list{1.5, list{stored()}, nil}), "more than a rank": pack(list{1.5, list{stored()}, 0, dict{"new", 1}}),
		"a float of 32 bits": pack(list{float32(1.5), list{stored()}, 0}),
	} {
		var d kvevents.Decoder
		n := 0
		b, err := d.Decode(payload, func(kvevents.Batch, kvevents.Event) error { n++; return nil })
		require.NoError(t, err, name)
		require.Equal(t, kvevents.Batch{Time: 1.5}, b, name)
		require.Equal(t, 1, n, name)
	}
	var d kvevents.Decoder
	b, err := d.Decode(pack(list{-3, nil, 7}), nil)
	require.NoError(t, err)
	require.Equal(t, kvevents.Batch{Time: -3, Rank: 7}, b)
}

// Events that are unknown are counted, and the others come in their order.
func TestUnknownTags(t *testing.T) {
	events, skipped := mustDecode(t, batch(dict{"type", "BlockInactive", "block_hashes", list{1}}, stored(), list{"Heartbeat", 5}, dict{"type", "AllBlocksCleared"}))
	require.Equal(t, 2, skipped)
	require.Len(t, events, 2)
	require.IsType(t, &kvevents.Stored{}, events[0])
	require.IsType(t, &kvevents.Cleared{}, events[1])
}

// A payload with damage anywhere is an error that says where, and none of its events is delivered.
func TestDamage(t *testing.T) {
	good := batch(stored("medium", "GPU"), list{"BlockRemoved", list{7}, "GPU"})
	for name, payload := range map[string][]byte{
		"nothing": nil, "a map": pack(dict{}), "an array of one": pack(list{1.5}), "a time of text": pack(list{"now", list{}, 0}), "events of text": pack(list{1.5, "x", 0}),
		"an event of text": batch("x"), "an empty array": batch(list{}), "an empty map": batch(dict{}), "no type": batch(dict{"block_size", 2}), "a type that is a number": batch(dict{"type", 5}),
		"a name that is a number": batch(dict{5, "x"}), "hashes of text": batch(stored("block_hashes", "x")), "a hash that is nil": batch(stored("block_hashes", list{nil})),
		"a hash that is a float": batch(stored("block_hashes", list{1.5})), "a parent that is a list": batch(stored("parent_block_hash", list{1})), "a negative token": batch(stored("token_ids", list{-1})),
		"a token of 33 bits": batch(stored("token_ids", list{1 << 32})), "a token of text": batch(stored("token_ids", list{"x"})), "tokens and pairs": batch(stored("token_ids", list{1, list{1, 2}})),
		"pairs and tokens": batch(stored("token_ids", list{list{1, 2}, 1})), "three tokens as one": batch(stored("token_ids", list{list{1, 2, 3}})), "a pair of texts": batch(stored("token_ids", list{list{"a", "b"}})),
		"a size of text": batch(stored("block_size", "x")), "a size that is too large": batch(stored("block_size", uint64(1<<63))), "a medium that is a number": batch(stored("medium", 5)),
		"extra keys of text": batch(stored("extra_keys", "x")), "extra keys of a block of text": batch(stored("extra_keys", list{"x"})), "a rank of text": pack(list{1.5, list{}, "x"}), "bytes behind it": append(batch(), 0),
		"a code that is none": append(pack(list{1.5, list{}})[:5], 0xc1, 0xc1), "an array that claims more than there is": {0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0xff, 0xff, 0xff, 0xff, 0},
		"a map that claims more than there is": {0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x91, 0xdf, 0xff, 0xff, 0xff, 0xff, 0}, "values nested without end": batch(stored("x", nested(40))),
	} {
		events, skipped, err := decode(payload)
		require.ErrorIs(t, err, kvevents.ErrPayload{}, name)
		require.Empty(t, events, name)
		require.Zero(t, skipped, name)
	}
	for n := range good {
		events, _, err := decode(good[:n])
		require.ErrorIs(t, err, kvevents.ErrPayload{}, "the first %d bytes", n)
		require.Empty(t, events)
	}
	events, _ := mustDecode(t, good)
	require.Len(t, events, 2)
	_, _, err := decode(batch(stored(), stored("medium", 5)))
	require.EqualError(t, err, `kvevents: payload: byte 329: medium: it is an integer; want a string; it is damaged, or its publisher is not vLLM or SGLang, or is a later version`)
}

func nested(depth int) any {
	var v any = list{}
	for range depth {
		v = list{v}
	}
	return v
}

// A payload takes no more memory than its bytes allow.
func TestMemoryOfPayloads(t *testing.T) {
	many := func(n int, x any) (l list) {
		for range n {
			l = append(l, x)
		}
		return l
	}
	short := func(l list, elem byte) []byte { // an array of as many elements of a byte
		b := pack(list{})[:1]
		b = binary.BigEndian.AppendUint32(b, uint32(len(l)))
		return append(b, bytes.Repeat([]byte{elem}, len(l))...)
	}
	const n = 200_000
	for name, field := range map[string][]byte{
		"hashes": append(pack("block_hashes"), short(many(n, nil), 1)...), "tokens": append(pack("token_ids"), short(many(n, nil), 1)...),
		"extra keys of no block": append(pack("extra_keys"), short(many(n, nil), 0xc0)...), "empty lists of extra keys": append(pack("extra_keys"), short(many(n, nil), 0x90)...),
		"extra keys of one block": append(append(pack("extra_keys"), 0x91), short(many(n, nil), 0xa0)...), "lists of one key": append(pack("extra_keys"), append(pack(list{})[:1], append(binary.BigEndian.AppendUint32(nil, n), bytes.Repeat([]byte{0x91, 0xa0}, n)...)...)...),
		"unknown fields": nil,
	} {
		event := append([]byte{0x82}, append(append(pack("type"), pack("BlockStored")...), field...)...)
		if field == nil {
			event = append(append(binary.BigEndian.AppendUint32([]byte{0xdf}, n+1), append(pack("type"), pack("BlockStored")...)...), bytes.Repeat([]byte{0xa0, 0xc0}, n)...)
		}
		payload := append(append([]byte{0x93, 0, 0x91}, event...), 0)
		var d kvevents.Decoder
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := d.Decode(payload, func(kvevents.Batch, kvevents.Event) error { return nil })
		runtime.ReadMemStats(&after)
		if name == "unknown fields" {
			require.ErrorContains(t, err, "more than 256 fields")
		} else {
			require.NoError(t, err, name)
		}
		bound := 60
		if race.Enabled { // slices.Grow allocates twice
			bound *= 2
		}
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(bound*len(payload)+1<<16), name)
		t.Logf("%s: %.1f bytes a byte", name, float64(after.TotalAlloc-before.TotalAlloc)/float64(len(payload)))
	}
}

// An error of the caller ends the call.
func TestErrorOfTheCaller(t *testing.T) {
	mine := errors.New("mine")
	var d kvevents.Decoder
	n := 0
	_, err := d.Decode(batch(stored(), stored()), func(kvevents.Batch, kvevents.Event) error { n++; return mine })
	require.Equal(t, mine, err)
	require.Equal(t, 1, n)
}

// Events that are nil, and a form that is none, change nothing else.
func TestEncodingExtremes(t *testing.T) {
	want := kvevents.VLLM.AppendBatch(nil, kvevents.Batch{}, plain)
	for _, f := range []kvevents.Form{kvevents.VLLM, -1, 99} {
		require.Equal(t, want, f.AppendBatch(nil, kvevents.Batch{}, nil, (*kvevents.Stored)(nil), plain, (*kvevents.Removed)(nil), (*kvevents.Cleared)(nil)))
	}
	require.Equal(t, append([]byte("before"), want...), kvevents.VLLM.AppendBatch([]byte("before"), kvevents.Batch{}, plain))
	empty := kvevents.VLLM.AppendBatch(nil, kvevents.Batch{}, &kvevents.Stored{ExtraKeys: [][]kvevents.Key{{{Text: "x", Raw: []byte{}}}}, Unknown: []kvevents.Field{{Name: "new"}}})
	e, _ := mustDecode(t, empty)
	requireEvent(t, &kvevents.Stored{ExtraKeys: [][]kvevents.Key{{{Text: "x"}}}, Unknown: []kvevents.Field{{Name: "new", Value: pack(nil)}}}, e[0])
	odd := kvevents.VLLM.AppendBatch(nil, kvevents.Batch{}, &kvevents.Stored{Tokens: []uint32{1, 2, 3}, Pairs: true})
	events, _ := mustDecode(t, odd)
	require.Equal(t, []uint32{1, 2}, events[0].(*kvevents.Stored).Tokens)
}
