package interop_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// The runner's slices are the operands, and attention writes into the runner's
// memory. On a GPU the handles are the runner's device pointers and its queue.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	stream := must(be.ImportStream(backend.Handle{})) // the device's default queue
	defer stream.Close()

	// Import keeps the slice alive until Free.
	operand := func(slice []float32) *cpu.Buffer {
		return must(be.Import(backend.HostHandle(slice), backend.F32, len(slice)))
	}
	result := make([]float32, 4)
	q, k := operand([]float32{1, 0, 0, 0}), operand([]float32{1, 0, 0, 0})
	v, out := operand([]float32{1, 2, 3, 4}), operand(result)

	cache := must(kvcache.NewStandalone(be, kvcache.Config{
		Model:   kvcache.Model{KVHeads: 1, HeadDim: 4},
		Storage: kvcache.Storage{K: backend.F32},
	}))
	defer cache.Release()
	io := kvcache.Dense(q, k, v, out)
	check(cache.Append(stream, io, 1))
	check(cache.Attend(stream, io, 1))
	check(stream.Sync()) // after this the runner may read result
	fmt.Println(result)  // with one key, attention is its value

	for _, b := range []*cpu.Buffer{q, k, v, out} {
		check(be.Free(b)) // ends the import; the slice stays the runner's
	}
	// Output: [1 2 3 4]
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
