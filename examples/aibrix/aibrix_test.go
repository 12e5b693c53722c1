package aibrix_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ferrumkv/ferrumkv/examples/aibrix"
	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/stretchr/testify/require"
)

// recorder notes what an indexer is called with. As AIBrix's, it keeps each adapter apart, and takes all blocks of an event for children of its parent.
type recorder struct {
	calls []string
	fails bool
}

func (r *recorder) ProcessBlockStored(_ context.Context, e aibrix.BlockStoredEvent) error {
	if len(e.BlockHashes) != len(e.Tokens) {
		return errors.New("block hashes and tokens length mismatch")
	}
	parent := "none"
	if e.ParentBlockHash != nil {
		parent = fmt.Sprint(*e.ParentBlockHash)
	}
	r.calls = append(r.calls, fmt.Sprintf("stored %v after %s, adapter %d", e.BlockHashes, parent, e.LoraID))
	if r.fails {
		return errors.New("full")
	}
	return nil
}

func (r *recorder) ProcessBlockRemoved(_ context.Context, e aibrix.BlockRemovedEvent) error {
	r.calls = append(r.calls, fmt.Sprintf("removed %v, adapter %d", e.BlockHashes, e.LoraID))
	return nil
}

func (r *recorder) RemovePrefix(_ context.Context, _ string, loraID int64, _ string) error {
	r.calls = append(r.calls, fmt.Sprintf("forget adapter %d", loraID))
	return nil
}

func hashes(n ...uint64) (hs []kvevents.Hash) {
	for _, x := range n {
		hs = append(hs, kvevents.Hash{Number: x})
	}
	return hs
}

func batch(events ...kvevents.Event) []byte {
	return kvevents.VLLM.AppendBatch(nil, kvevents.Batch{}, events...)
}

func TestFeed(t *testing.T) {
	r := &recorder{}
	feed := aibrix.Feed{Indexer: r, Model: "m", Pod: "p"}
	require.NoError(t, feed.Batch(context.Background(), batch(
		&kvevents.Stored{Hashes: hashes(1, 2), Tokens: []uint32{1, 2, 3, 4}, BlockSize: 2},
		&kvevents.Stored{Hashes: hashes(2), Medium: "CPU"}, // without tokens: AIBrix has no place for it
		&kvevents.Stored{Hashes: hashes(3), Parent: kvevents.Hash{Number: 2}, HasParent: true, Tokens: []uint32{5, 6}, BlockSize: 2, LoRAID: 7},
		&kvevents.Removed{Hashes: hashes(3)},
		&kvevents.Cleared{})))
	require.Equal(t, []string{"stored [1] after none, adapter -1", "stored [2] after 1, adapter -1", "stored [3] after 2, adapter 7",
		"removed [3], adapter -1", "removed [3], adapter 7", "forget adapter -1", "forget adapter 7"}, r.calls)
}

// What an indexer refuses is said, and the rest of the batch is handed over.
func TestRefused(t *testing.T) {
	r := &recorder{fails: true}
	feed := aibrix.Feed{Indexer: r, Model: "m", Pod: "p"}
	require.ErrorContains(t, feed.Batch(context.Background(), batch(&kvevents.Stored{Hashes: hashes(1), Tokens: []uint32{1, 2}, BlockSize: 2}, &kvevents.Removed{Hashes: hashes(9)})), "full")
	require.Equal(t, []string{"stored [1] after none, adapter -1", "removed [9], adapter -1"}, r.calls)
}
