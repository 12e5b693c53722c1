package interop_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// The runner's slices are the operands, and attention writes into the runner's
// memory. For a GPU the handles would be its pointers and its queue, and Sync is
// where the results are known to be there; the CPU is done at once.
func Example() {
	be := demo.Must(cpu.Open(cpu.Options{}))
	defer be.Close()
	stream := demo.Must(be.ImportStream(backend.Handle{})) // the device's default queue
	defer stream.Close()

	// Import holds on to a slice until Free, so the garbage collector does not take it.
	operand := func(slice []float32) *cpu.Buffer {
		return demo.Must(be.Import(backend.HostHandle(slice), backend.F32, len(slice)))
	}
	result := make([]float32, 4)
	q, k := operand([]float32{1, 0, 0, 0}), operand([]float32{1, 0, 0, 0})
	v, out := operand([]float32{1, 2, 3, 4}), operand(result)

	cache := demo.Must(kvcache.NewStandalone(be, kvcache.Config{KVHeads: 1, HeadDim: 4, K: backend.F32}))
	defer cache.Release()
	demo.Check(cache.Append(stream, k, v, 1))
	demo.Check(cache.Attend(stream, q, out, 1))
	demo.Check(stream.Sync()) // result is the runner's to read from here on
	fmt.Println(result)       // one key: all of the probability is on its value

	for _, b := range []*cpu.Buffer{q, k, v, out} {
		demo.Check(be.Free(b)) // forgets the slice, which stays the runner's
	}
	// Output: [1 2 3 4]
}
