package aibrix

import (
	"context"
	"encoding/binary"

	"github.com/ferrumkv/ferrumkv/kvevents"
)

// SyncIndexer is aibrix/pkg/kvevent's.
type SyncIndexer interface {
	ProcessBlockStored(ctx context.Context, event BlockStoredEvent) error
	ProcessBlockRemoved(ctx context.Context, event BlockRemovedEvent) error
	RemovePrefix(ctx context.Context, modelName string, loraID int64, podKey string) error
}

// BlockStoredEvent is aibrix/pkg/kvevent's.
type BlockStoredEvent struct {
	BlockHashes     []int64
	ModelName       string
	LoraID          int64
	SourcePod       string
	ParentBlockHash *int64
	Tokens          [][]byte // of each block, 4 bytes a token, big-endian
	Medium          string
	LoraName        string
	GroupIdx        int64 // -1: none
}

// BlockRemovedEvent is aibrix/pkg/kvevent's.
type BlockRemovedEvent struct {
	BlockHashes []int64
	ModelName   string
	LoraID      int64
	SourcePod   string
	Medium      string
	GroupIdx    int64
}

// noLoRA is AIBrix's number of the model without an adapter.
const noLoRA = -1

// Feed hands the events of one pod to an indexer.
type Feed struct {
	Indexer SyncIndexer
	Model   string
	Pod     string
	decoder kvevents.Decoder
}

// Batch hands over the events of a payload, in their order, until the indexer returns an error.
func (f *Feed) Batch(ctx context.Context, payload []byte) error {
	_, err := f.decoder.Decode(payload, func(_ kvevents.Batch, e kvevents.Event) error {
		switch e := e.(type) {
		case *kvevents.Stored:
			return f.Indexer.ProcessBlockStored(ctx, f.stored(e))
		case *kvevents.Removed:
			return f.Indexer.ProcessBlockRemoved(ctx, BlockRemovedEvent{BlockHashes: hashes(e.Hashes), ModelName: f.Model, LoraID: noLoRA, SourcePod: f.Pod, Medium: e.Medium, GroupIdx: group(e.Group, e.HasGroup)})
		}
		return f.Reset(ctx)
	})
	return err
}

// Reset has the indexer forget the pod, as a subscription asks for when events were lost.
func (f *Feed) Reset(ctx context.Context) error {
	return f.Indexer.RemovePrefix(ctx, f.Model, noLoRA, f.Pod)
}

func (f *Feed) stored(e *kvevents.Stored) BlockStoredEvent {
	out := BlockStoredEvent{BlockHashes: hashes(e.Hashes), ModelName: f.Model, LoraID: noLoRA, SourcePod: f.Pod, Medium: e.Medium, LoraName: e.LoRAName, GroupIdx: group(e.Group, e.HasGroup)}
	if e.LoRAID != 0 {
		out.LoraID = e.LoRAID
	}
	if e.HasParent {
		parent := int64(e.Parent.Number)
		out.ParentBlockHash = &parent
	}
	if e.BlockSize < 1 || e.Pairs {
		return out
	}
	for t := e.Tokens; len(t) >= e.BlockSize; t = t[e.BlockSize:] {
		var b []byte
		for _, token := range t[:e.BlockSize] {
			b = binary.BigEndian.AppendUint32(b, token)
		}
		out.Tokens = append(out.Tokens, b)
	}
	return out
}

func hashes(hs []kvevents.Hash) (out []int64) {
	for _, h := range hs {
		out = append(out, int64(h.Number))
	}
	return out
}

func group(n int, has bool) int64 {
	if !has {
		return -1
	}
	return int64(n)
}
