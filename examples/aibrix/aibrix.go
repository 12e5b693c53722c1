package aibrix

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

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

// Feed hands the events of one pod to an indexer. It is used by one goroutine at a time.
type Feed struct {
	Indexer  SyncIndexer
	Model    string
	Pod      string
	decoder  kvevents.Decoder
	adapters map[int64]bool // that blocks were stored of: AIBrix keeps each apart, and removals do not name one
}

// mostAdapters bounds the adapters of a pod. Blocks of others are not handed over.
const mostAdapters = 1 << 10

// Batch hands over the events of a payload, in their order. The errors are those of the payload and of the indexer: an event that the indexer refuses
// does not keep it from those that follow, which may be removals.
func (f *Feed) Batch(ctx context.Context, payload []byte) error {
	var refused []error
	_, err := f.decoder.Decode(payload, func(_ kvevents.Batch, e kvevents.Event) error {
		switch e := e.(type) {
		case *kvevents.Stored:
			refused = append(refused, f.stored(ctx, e))
		case *kvevents.Removed:
			for _, adapter := range f.all() {
				refused = append(refused, f.Indexer.ProcessBlockRemoved(ctx, BlockRemovedEvent{BlockHashes: hashes(e.Hashes), ModelName: f.Model, LoraID: adapter, SourcePod: f.Pod, Medium: e.Medium, GroupIdx: group(e.Group, e.HasGroup)}))
			}
		case *kvevents.Cleared:
			refused = append(refused, f.Reset(ctx))
		}
		return ctx.Err()
	})
	return errors.Join(append(refused, err)...)
}

// Reset makes the indexer forget the pod: when a message of the subscription has a Reset, before its Batch.
func (f *Feed) Reset(ctx context.Context) error {
	var refused []error
	for _, adapter := range f.all() {
		refused = append(refused, f.Indexer.RemovePrefix(ctx, f.Model, adapter, f.Pod))
	}
	return errors.Join(refused...)
}

// all is the model without an adapter, and the adapters.
func (f *Feed) all() []int64 {
	all := []int64{noLoRA}
	for adapter := range f.adapters {
		all = append(all, adapter)
	}
	slices.Sort(all)
	return all
}

// stored hands over one block after the other, each with the block before as its parent: AIBrix takes all blocks of an event for children of its
// parent. Events without tokens, and pairs of tokens, say nothing that AIBrix could use.
func (f *Feed) stored(ctx context.Context, e *kvevents.Stored) error {
	if e.Pairs || e.BlockSize < 1 || e.BlockSize > len(e.Tokens) || len(e.Tokens) != len(e.Hashes)*e.BlockSize {
		return nil
	}
	out := BlockStoredEvent{ModelName: f.Model, LoraID: noLoRA, SourcePod: f.Pod, Medium: e.Medium, LoraName: e.LoRAName, GroupIdx: group(e.Group, e.HasGroup)}
	if e.LoRAID != 0 {
		out.LoraID = e.LoRAID
		if !f.adapters[e.LoRAID] {
			if len(f.adapters) >= mostAdapters {
				return fmt.Errorf("%s has blocks of more than %d adapters", f.Pod, mostAdapters)
			}
			if f.adapters == nil {
				f.adapters = map[int64]bool{}
			}
			f.adapters[e.LoRAID] = true
		}
	}
	if e.HasParent {
		parent := int64(e.Parent.Number)
		out.ParentBlockHash = &parent
	}
	for i, h := range e.Hashes {
		var tokens []byte
		for _, token := range e.Tokens[i*e.BlockSize : (i+1)*e.BlockSize] {
			tokens = binary.BigEndian.AppendUint32(tokens, token)
		}
		hash := int64(h.Number)
		out.BlockHashes, out.Tokens = []int64{hash}, [][]byte{tokens}
		if err := f.Indexer.ProcessBlockStored(ctx, out); err != nil {
			return err
		}
		out.ParentBlockHash = &hash
	}
	return nil
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
