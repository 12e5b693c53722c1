package kvevents_test

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// events are 64 stored blocks of 16 tokens, one event each, and their removal.
func benchEvents() (events []kvevents.Event) {
	var gone []kvevents.Hash
	for i := range uint64(64) {
		h := kvevents.Hash{Number: 0x9e3779b97f4a7c15 * (i + 1)}
		var tokens []uint32
		for j := range uint32(16) {
			tokens = append(tokens, (uint32(i)*7919+j*104729)%150000)
		}
		events = append(events, &kvevents.Stored{Hashes: []kvevents.Hash{h}, Parent: kvevents.Hash{Number: i}, HasParent: i > 0, Tokens: tokens, BlockSize: 16, Medium: "GPU",
			ExtraKeys: [][]kvevents.Key{nil}, HasGroup: true, Kind: "full_attention"})
		gone = append(gone, h)
	}
	return append(events, &kvevents.Removed{Hashes: gone, Medium: "GPU", HasGroup: true})
}

func BenchmarkEncode(b *testing.B) {
	for name, form := range map[string]kvevents.Form{"maps": kvevents.VLLM, "arrays": kvevents.VLLMArrays} {
		b.Run(name, func(b *testing.B) {
			events := benchEvents()
			dst := kvevents.VLLM.AppendBatch(nil, kvevents.Batch{}, events...)
			b.ReportAllocs()
			b.SetBytes(int64(len(form.AppendBatch(nil, kvevents.Batch{}, events...))))
			for b.Loop() {
				dst = form.AppendBatch(dst[:0], kvevents.Batch{Time: 1.5}, events...)
			}
			b.ReportMetric(float64(len(events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, form := range map[string]kvevents.Form{"maps": kvevents.VLLM, "arrays": kvevents.VLLMArrays} {
		b.Run(name, func(b *testing.B) {
			events := benchEvents()
			payload := form.AppendBatch(nil, kvevents.Batch{Time: 1.5}, events...)
			var d kvevents.Decoder
			n := 0
			b.ReportAllocs()
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				if _, err := d.Decode(payload, func(kvevents.Batch, kvevents.Event) error { n++; return nil }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// Encoding into memory that is there, and decoding once more what came before, allocate nothing.
func TestNothingIsAllocated(t *testing.T) {
	events := benchEvents()
	payload := kvevents.VLLM.AppendBatch(nil, kvevents.Batch{}, events...)
	var d kvevents.Decoder
	f := func(kvevents.Batch, kvevents.Event) error { return nil }
	n := testing.AllocsPerRun(10, func() {
		payload = kvevents.VLLM.AppendBatch(payload[:0], kvevents.Batch{}, events...)
		if _, err := d.Decode(payload, f); err != nil {
			t.Error(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
