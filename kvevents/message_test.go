package kvevents_test

import (
	"encoding/hex"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/stretchr/testify/require"
)

func numbers(n ...uint64) (hashes []kvevents.Hash) {
	for _, x := range n {
		hashes = append(hashes, kvevents.Hash{Number: x})
	}
	return hashes
}

func signed(n int64) uint64 { return uint64(n) }

// message is a payload as bytes and as events.
type message struct {
	name   string
	form   kvevents.Form
	bytes  string
	batch  kvevents.Batch
	events []kvevents.Event
}

// plain is a block of four tokens, one its removal.
var (
	plain = &kvevents.Stored{Hashes: numbers(0x1122334455667788), Tokens: count(1, 4, 1), BlockSize: 4, Medium: "GPU"}
	one   = &kvevents.Removed{Hashes: numbers(0x1122334455667788), Medium: "GPU", HasGroup: true}
)

// messages are those of the field: what msgspec 0.21.1 wrote of SGLang's structs (published by Mooncake's Conductor), what vLLM 0.26.0 sent
// (volcano-sh/kthena#1535), what llm-d-kv-cache 0.9.0 decodes, and others by a program of its own.
var messages = []message{
	{"SGLang: stored, removed, cleared", kvevents.SGLang,
		"93cb40290000000000009387a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657392ff02b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6502a76c6f72615f6964c0a66d656469756da347505583a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391ffa66d656469756da347505581a474797065b0416c6c426c6f636b73436c656172656404",
		kvevents.Batch{Time: 12.5, Rank: 4}, []kvevents.Event{
			&kvevents.Stored{Hashes: numbers(signed(-1), 2), Tokens: count(1, 4, 1), BlockSize: 2, Medium: "GPU"},
			&kvevents.Removed{Hashes: numbers(signed(-1)), Medium: "GPU"}, &kvevents.Cleared{}}},
	{"SGLang: salt and session", kvevents.SGLang,
		"93cb40040000000000009189a474797065ab426c6f636b53746f726564ac626c6f636b5f6861736865739109b1706172656e745f626c6f636b5f68617368fea9746f6b656e5f6964739105aa626c6f636b5f73697a6504a76c6f72615f696403a66d656469756daa4350555f50494e4e4544aa63616368655f73616c74a673616c742d61aa73657373696f6e5f6964a973657373696f6e2d6101",
		kvevents.Batch{Time: 2.5, Rank: 1}, []kvevents.Event{
			&kvevents.Stored{Hashes: numbers(9), Parent: kvevents.Hash{Number: signed(-2)}, HasParent: true, Tokens: []uint32{5}, BlockSize: 4, LoRAID: 3, Medium: "CPU_PINNED", CacheSalt: "salt-a", SessionID: "session-a"}}},
	{"SGLang: no events", kvevents.SGLang, "93cb40140000000000009000", kvevents.Batch{Time: 5}, nil},
	{"vLLM 0.26.0", kvevents.VLLM,
		"93cb41daa8dbe0359fe7918ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cfdab89baa7b5857c0b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473dc0010ce0002505ccd0368ccc6cd2368cd0176cd0117cd1a42cd013bcd15f01ece0002505dccc6ce0002505cce00012d23ccc6ce00025073aa626c6f636b5f73697a6510a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa65787472615f6b65797391c0a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e00",
		kvevents.Batch{Time: 1789095808.8378847}, []kvevents.Event{
			&kvevents.Stored{Hashes: numbers(15760518052499183552), Tokens: []uint32{151644, 872, 198, 9064, 374, 279, 6722, 315, 5616, 30, 151645, 198, 151644, 77091, 198, 151667},
				BlockSize: 16, Medium: "GPU", ExtraKeys: [][]kvevents.Key{nil}, HasGroup: true, Kind: "full_attention"}}},
	{"vLLM: two salted blocks", kvevents.VLLM, "93cb3ff8000000000000918ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657392cfd6bdfee02bc9f258cfea343ab9e847b97eb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473dc00200102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20aa626c6f636b5f73697a6510a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa65787472615f6b6579739291a673616c742d61c0a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e00",
		kvevents.Batch{Time: 1.5}, []kvevents.Event{
			&kvevents.Stored{Hashes: numbers(0xd6bdfee02bc9f258, 0xea343ab9e847b97e), Tokens: count(1, 32, 1), BlockSize: 16, Medium: "GPU",
				ExtraKeys: [][]kvevents.Key{{{Text: "salt-a"}}, nil}, HasGroup: true, Kind: "full_attention"}}},
	{"vLLM: a block of a shared tier", kvevents.VLLM, "93cb3ff8000000000000918ca474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cfd6bdfee02bc9f258b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473dc00100102030405060708090a0b0c0d0e0f10aa626c6f636b5f73697a6510a76c6f72615f6964c0a66d656469756da845585445524e414ca96c6f72615f6e616d65c0aa65787472615f6b6579739191a673616c742d61a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6ea86c6f63616c697479a54c4f43414c00",
		kvevents.Batch{Time: 1.5}, []kvevents.Event{
			&kvevents.Stored{Hashes: numbers(0xd6bdfee02bc9f258), Tokens: count(1, 16, 1), BlockSize: 16, Medium: "EXTERNAL",
				ExtraKeys: [][]kvevents.Key{{{Text: "salt-a"}}}, HasGroup: true, Kind: "full_attention", Locality: "LOCAL"}}},
	{"llm-d: stored, a map", kvevents.VLLM,
		"93cb3ff80000000000009188a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cf1122334455667788b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c000",
		kvevents.Batch{Time: 1.5}, []kvevents.Event{plain}},
	{"llm-d: stored, an array", kvevents.VLLMArrays, "93cb3ff80000000000009198ab426c6f636b53746f72656491cf1122334455667788c0940102030404c0a3475055c000", kvevents.Batch{Time: 1.5}, []kvevents.Event{plain}},
	{"SGLang before September 2026: seven elements, with a medium that is nil", kvevents.SGLangArrays, "93cb3ff80000000000009297ab426c6f636b53746f7265649107c092010202c0c093ac426c6f636b52656d6f7665649107c000", kvevents.Batch{Time: 1.5}, []kvevents.Event{
		&kvevents.Stored{Hashes: numbers(7), Tokens: []uint32{1, 2}, BlockSize: 2}, &kvevents.Removed{Hashes: numbers(7)}}},
	{"llm-d: removed, a map", kvevents.VLLM, "93cb3ff80000000000009184a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cf1122334455667788a66d656469756da3475055a967726f75705f6964780000", kvevents.Batch{Time: 1.5}, []kvevents.Event{one}},
	{"llm-d: removed, an array", kvevents.VLLMArrays, "93cb3ff80000000000009194ac426c6f636b52656d6f76656491cf1122334455667788a34750550000", kvevents.Batch{Time: 1.5}, []kvevents.Event{one}},
	{"llm-d: cleared, a map", kvevents.VLLM, "93cb3ff80000000000009181a474797065b0416c6c426c6f636b73436c656172656400", kvevents.Batch{Time: 1.5}, []kvevents.Event{&kvevents.Cleared{}}},
	{"llm-d: cleared, an array", kvevents.VLLMArrays, "93cb3ff80000000000009191b0416c6c426c6f636b73436c656172656400", kvevents.Batch{Time: 1.5}, []kvevents.Event{&kvevents.Cleared{}}},
	{"SGLang: the least and the largest hash", kvevents.SGLang, "93cb3ff80000000000009183a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657393d38000000000000000cf7fffffffffffffffffa66d656469756da347505500",
		kvevents.Batch{Time: 1.5}, []kvevents.Event{&kvevents.Removed{Hashes: numbers(1<<63, 1<<63-1, signed(-1)), Medium: "GPU"}}},
	{"tokens of three lengths, hashes of bytes", kvevents.VLLM, "93cb3ff8000000000000918ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391c4203031323334353637383961626364656630313233343536373839616263646566b1706172656e745f626c6f636b5f68617368c4203031323334353637383961626364656630313233343536373839616263646566a9746f6b656e5f69647393ce00011170ccff7faa626c6f636b5f73697a6503a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65a9616461707465722d41a967726f75705f69647803b26b765f63616368655f737065635f6b696e64ae736c6964696e675f77696e646f77bc6b765f63616368655f737065635f736c6964696e675f77696e646f77cd040000",
		kvevents.Batch{Time: 1.5}, []kvevents.Event{
			&kvevents.Stored{Hashes: []kvevents.Hash{kvevents.HashOf(bytes32)}, Parent: kvevents.HashOf(bytes32), HasParent: true, Tokens: []uint32{70000, 255, 127}, BlockSize: 3, Medium: "GPU", LoRAName: "adapter-A",
				Window: 1024, Kind: "sliding_window", HasGroup: true, Group: 3}}},
}

var bytes32 = []byte("0123456789abcdef0123456789abcdef")

// The bytes are those that engines send.
func TestMessagesAreEncoded(t *testing.T) {
	for _, m := range messages {
		t.Run(m.name, func(t *testing.T) {
			require.Equal(t, m.bytes, hex.EncodeToString(m.form.AppendBatch(nil, m.batch, m.events...)))
		})
	}
}

func TestMessagesAreDecoded(t *testing.T) {
	var d kvevents.Decoder // of all of them: what is kept from one changes no other
	for range 2 {
		for _, m := range messages {
			payload, err := hex.DecodeString(m.bytes)
			require.NoError(t, err)
			n := 0
			batch, err := d.Decode(payload, func(b kvevents.Batch, e kvevents.Event) error {
				require.Equal(t, m.batch, b, m.name)
				requireEvent(t, m.events[n], e, m.name)
				n++
				return nil
			})
			require.NoError(t, err, m.name)
			require.Equal(t, m.batch, batch, m.name)
			require.Len(t, m.events, n, m.name)
		}
	}
	require.Zero(t, d.Skipped())
}
