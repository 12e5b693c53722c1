package tier_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
)

// Two blocks of a sequence go to host memory and to a disk. Memory that is gone leaves the disk to load them from.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "tier")
	check(err)
	defer os.RemoveAll(folder)
	space := disk.Namespace{Fingerprint: prefix.Key{1}} // of the model and format, as kvcache.Config.Fingerprint has it
	low, err := disk.Open(disk.Options{Dir: disk.Path(folder, space), Namespace: space, Payload: 4096, Bytes: 1 << 20})
	check(err)
	defer low.Close()
	fast, err := memory.Open(memory.Options{Bytes: 1 << 20})
	check(err)
	defer fast.Close()
	mover, err := tier.NewMover([]tier.Tier{fast, low}, tier.MoverOptions{})
	check(err)
	defer mover.Close()

	first, second := prefix.Key{2}, prefix.Key{3} // of the tokens so far, as the pool has them
	blocks := []tier.Block{{Key: first, Bytes: make([]byte, 4096)}, {Key: second, Parent: first, Bytes: make([]byte, 4096)}}
	blocks[1].Bytes[0] = 42
	move := func(do func(context.Context, tier.Job) error) tier.Result {
		done := make(chan tier.Result, 1)
		check(do(ctx, tier.Job{Blocks: blocks, Done: func(r tier.Result) { done <- r }}))
		return <-done
	}
	fmt.Println("stored", move(mover.Store).By, "in", filepath.Base(disk.Path(folder, space)))
	check(fast.Clear(ctx, tier.Key{})) // as if the process had ended
	clear(blocks[1].Bytes)
	fmt.Println("loaded", move(mover.Load).By, blocks[1].Bytes[0])
	// Output:
	// stored [2 2] in 0100000000000000-0
	// loaded [0 2] 42
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
