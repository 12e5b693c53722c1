package kvevents_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/stretchr/testify/require"
)

// lengths are on both sides of every change of form.
var lengths = []int{0, 1, 15, 16, 31, 32, 33, 255, 256, 300, 65535, 65536}

type draw struct{ *rand.Rand }

func (r draw) length(most int) int {
	for {
		if n := lengths[r.IntN(len(lengths))]; n <= most {
			return n
		}
	}
}

func (r draw) number() uint64 { return r.Uint64() >> r.IntN(64) }

func (r draw) text() string { return strings.Repeat("x", r.length(300)*r.IntN(2)) }

func (r draw) hash() kvevents.Hash {
	if r.IntN(3) > 0 {
		return kvevents.Hash{Number: r.number()}
	}
	b := make([]byte, r.length(300))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return kvevents.HashOf(b)
}

func (r draw) hashes(n int) (hashes []kvevents.Hash) {
	for range n {
		hashes = append(hashes, r.hash())
	}
	return hashes
}

func (r draw) unknown() (fields []kvevents.Field) {
	for range r.IntN(3) * r.IntN(2) {
		fields = append(fields, kvevents.Field{Name: "new " + r.text(), Value: pack(list{int(r.number()), r.text(), nil, dict{"x", 1.5}})})
	}
	return fields
}

// stored is a random event; plainly: without what arrays have no place for.
func (r draw) stored(plainly bool) *kvevents.Stored {
	most := 300
	if r.IntN(50) == 0 {
		most = 65536
	}
	e := &kvevents.Stored{Hashes: r.hashes(r.length(most)), BlockSize: int(r.number() >> 1), Pairs: r.IntN(4) == 0, LoRAID: int64(r.number()), LoRAName: r.text(), Medium: r.text(), Kind: r.text(),
		Window: int(r.number() >> 1), Locality: r.text(), Ownership: r.text(), SessionID: r.text()}
	if e.HasParent = r.IntN(2) == 0; e.HasParent {
		e.Parent = r.hash()
	}
	if e.HasGroup = r.IntN(2) == 0; e.HasGroup {
		e.Group = int(int64(r.number()))
	}
	for range r.length(most) * 2 {
		e.Tokens = append(e.Tokens, uint32(r.number()))
	}
	e.Pairs = e.Pairs && len(e.Tokens) > 0 // no tokens are no pairs
	if r.IntN(2) == 0 {
		e.ExtraKeys = [][]kvevents.Key{}
		for range r.IntN(4) {
			var keys []kvevents.Key
			for range r.IntN(3) {
				if keys = append(keys, kvevents.Key{Text: r.text()}); r.IntN(2) == 0 {
					keys[len(keys)-1] = kvevents.Key{Raw: pack(list{r.text(), int(r.number())})}
				}
			}
			e.ExtraKeys = append(e.ExtraKeys, keys)
		}
	}
	if !plainly {
		e.CacheSalt = r.text()
		e.Unknown = r.unknown()
	}
	return e
}

func (r draw) removed(plainly bool) *kvevents.Removed {
	e := &kvevents.Removed{Hashes: r.hashes(r.length(300)), Medium: r.text(), Locality: r.text(), Ownership: r.text(), HasGroup: r.IntN(2) == 0}
	if e.HasGroup {
		e.Group = r.IntN(300) - 100
	}
	if !plainly {
		e.Unknown = r.unknown()
	}
	return e
}

// What is written in any form is read back, by one decoder after the other.
func TestRandomBatches(t *testing.T) {
	r := draw{rand.New(rand.NewPCG(1, 2))}
	var d kvevents.Decoder
	n := 2000
	if testing.Short() {
		n = 300
	}
	for range n {
		f := kvevents.Form(r.IntN(4))
		arrays := f == kvevents.VLLMArrays || f == kvevents.SGLangArrays
		b := kvevents.Batch{Time: r.NormFloat64(), Rank: r.IntN(300) - 20}
		var events []kvevents.Event
		for range r.IntN(5) {
			switch r.IntN(3) {
			case 0:
				events = append(events, r.stored(arrays))
			case 1:
				events = append(events, r.removed(arrays))
			case 2:
				events = append(events, &kvevents.Cleared{})
			}
		}
		payload := f.AppendBatch(nil, b, events...)
		i := 0
		have, err := d.Decode(payload, func(have kvevents.Batch, e kvevents.Event) error {
			require.Equal(t, b, have)
			requireEvent(t, events[i], e)
			i++
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, b, have)
		require.Len(t, events, i)
	}
}

// Any bytes are a batch or ErrPayload; a batch that is written again is read as the same.
func FuzzDecode(f *testing.F) {
	for _, m := range messages {
		f.Add(m.form.AppendBatch(nil, m.batch, m.events...))
	}
	f.Add(batch(list{"BlockStored", list{7}, nil, list{1, 2}, 2, nil, "GPU", dict{"cache_salt", "s", "new", 1}}))
	f.Add(batch(stored("extra_keys", list{list{list{"hash", 3}, 5, "adapter"}, nil}, "token_ids", list{list{1, 2}}), dict{"type", "new", "x", 1.5}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var d kvevents.Decoder
		var events []kvevents.Event
		b, err := d.Decode(payload, func(_ kvevents.Batch, e kvevents.Event) error {
			events = append(events, tidy(e))
			return nil
		})
		if err != nil {
			require.ErrorIs(t, err, kvevents.ErrPayload{})
			require.Empty(t, events)
			return
		}
		for _, e := range events {
			if s, ok := e.(*kvevents.Stored); ok && !named(s.Unknown) {
				return // written again, they would be other fields
			}
		}
		for _, form := range []kvevents.Form{kvevents.VLLM, kvevents.SGLang} {
			again, _, err := decode(form.AppendBatch(nil, b, events...))
			require.NoError(t, err)
			require.Len(t, again, len(events))
			for i := range events {
				if s, ok := events[i].(*kvevents.Stored); ok {
					requireEvent(t, s, again[i])
				}
			}
		}
	})
}

// named says that all fields have names, and none has that of a known field, as one in an array's map may have.
func named(fields []kvevents.Field) bool {
	known := []string{"", "type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind",
		"kv_cache_spec_sliding_window", "locality", "ownership", "cache_salt", "session_id"}
	return !slices.ContainsFunc(fields, func(f kvevents.Field) bool { return slices.Contains(known, f.Name) })
}
