package aibrix_test

import (
	"context"
	"fmt"

	"github.com/ferrumkv/ferrumkv/examples/aibrix"
	"github.com/ferrumkv/ferrumkv/kvevents"
)

// indexer is where AIBrix's would be.
type indexer struct{}

func (indexer) ProcessBlockStored(_ context.Context, e aibrix.BlockStoredEvent) error {
	fmt.Printf("stored %x of %s on %s, tokens %x\n", e.BlockHashes, e.SourcePod, e.Medium, e.Tokens)
	return nil
}

func (indexer) ProcessBlockRemoved(_ context.Context, e aibrix.BlockRemovedEvent) error {
	fmt.Printf("removed %x of %s\n", e.BlockHashes, e.SourcePod)
	return nil
}

func (indexer) RemovePrefix(_ context.Context, model string, _ int64, pod string) error {
	fmt.Printf("forget %s of %s\n", model, pod)
	return nil
}

func Example() {
	payload := kvevents.VLLM.AppendBatch(nil, kvevents.Batch{Time: 1.5}, // vLLM from 0.24 on: maps
		&kvevents.Stored{Hashes: []kvevents.Hash{{Number: 0x11}, {Number: 0x12}}, Tokens: []uint32{1, 2, 70000, 4}, BlockSize: 2, Medium: "GPU"},
		&kvevents.Removed{Hashes: []kvevents.Hash{{Number: 0x12}}, Medium: "GPU"},
		&kvevents.Cleared{})
	feed := aibrix.Feed{Indexer: indexer{}, Model: "m", Pod: "default/pod-1"}
	if err := feed.Batch(context.Background(), payload); err != nil {
		panic(err)
	}
	// Output:
	// stored [11] of default/pod-1 on GPU, tokens [0000000100000002]
	// stored [12] of default/pod-1 on GPU, tokens [0001117000000004]
	// removed [12] of default/pod-1
	// forget m of default/pod-1
}
