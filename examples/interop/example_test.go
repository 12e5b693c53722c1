package interop_test

import (
	"fmt"
	"log"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// The runner's slices are the operands: what attention writes is in the runner's
// memory at once. On a GPU the handle is a device pointer instead.
func Example() {
	if err := attend(); err != nil {
		log.Fatal(err)
	}
	// Output: [1 2 3 4]
}

func attend() error {
	be, err := cpu.Open(cpu.Options{})
	if err != nil {
		return err
	}
	defer be.Close()
	stream, err := be.ImportStream(backend.Handle{}) // the device's default queue
	if err != nil {
		return err
	}
	defer stream.Close()

	q, k := []float32{1, 0, 0, 0}, []float32{1, 0, 0, 0}
	v, out := []float32{1, 2, 3, 4}, make([]float32, 4)
	var operands [4]*cpu.Buffer
	for i, slice := range [][]float32{q, k, v, out} {
		if operands[i], err = be.Import(backend.HostHandle(slice), backend.F32, len(slice)); err != nil {
			return err
		}
		defer be.Free(operands[i]) // forgets the slice, which stays the runner's
	}

	cache, err := kvcache.NewKvCache(be, kvcache.Config{KVHeads: 1, HeadDim: 4, K: backend.F32})
	if err != nil {
		return err
	}
	defer cache.Release()
	if err := cache.Append(stream, operands[1], operands[2], 1); err != nil {
		return err
	}
	if err := cache.Attend(stream, operands[0], operands[3], 1); err != nil {
		return err
	}
	fmt.Println(out) // one key: all of the probability is on its value
	return nil
}
