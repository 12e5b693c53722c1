package graph_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/ferrumkv/ferrumkv/backend"
	_ "github.com/ferrumkv/ferrumkv/backend/all"
	"github.com/ferrumkv/ferrumkv/examples/internal/demo"
)

// Keys are 0, so attention is the mean of the values: 1, then 1 and 2, then 1, 2 and 3.
func Example() {
	be := demo.Must(backend.Open(cmp.Or(os.Getenv("FERRUM_TEST_DEVICE"), "cpu"))) // "cuda:0" has graphs
	defer be.Close()
	stream := demo.Must(be.NewStream())

	// One layer, one head, one sequence of up to 16 tokens. What a step reads lies in the
	// same buffers for good.
	const dim, capacity = 64, 16
	zeros := func(dt backend.DType, n int) backend.AnyBuffer {
		b := demo.Must(be.Alloc(dt, n))
		demo.Check(be.Fill(stream, b, 0, n, 0))
		return b
	}
	plane := func() backend.Plane[backend.AnyBuffer] {
		return backend.Plane[backend.AnyBuffer]{Data: zeros(backend.F32, capacity*dim), Dim: dim}
	}
	cache := backend.CacheView[backend.AnyBuffer]{K: plane(), V: plane(), Blocks: 1, KVHeads: 1, BlockSize: capacity}
	q, k, v, out := zeros(backend.F32, dim), zeros(backend.F32, dim), zeros(backend.F32, dim), zeros(backend.F32, dim)
	slots, lengths := zeros(backend.I64, 1), zeros(backend.U32, 1)

	shape := backend.AttendShape{QHeads: 1, KVHeads: 1, KDim: dim, VDim: dim, BlockSize: capacity,
		Format: backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}, QueryLens: []uint32{1}, ContextLens: []uint32{1}, Fixed: true}
	plan := demo.Must(be.PlanAttend(shape))
	work, workspace := zeros(backend.U32, max(len(plan.Work), 1)), zeros(backend.F32, max(plan.Workspace, 1))

	step := func() error {
		return errors.Join(
			be.Append(stream, backend.AppendParams[backend.AnyBuffer]{Cache: cache, Tokens: 1, K: backend.Dense(k), V: backend.Dense(v), Slots: slots}),
			be.Attend(stream, backend.AttendParams[backend.AnyBuffer]{
				Cache: cache, Batch: backend.Ragged[backend.AnyBuffer]{Seqs: 1, Tokens: 1, ContextLens: lengths},
				Q: backend.Dense(q), QHeads: 1, Scale: 1, Out: backend.Outputs[backend.AnyBuffer]{Rows: backend.Dense(out)},
				Plan: plan, Work: backend.Some(work), Workspace: backend.Some(workspace),
			}))
	}
	run := step
	graph, err := backend.Capture(be, stream, step)
	switch {
	case err == nil:
		defer graph.Close()
		run = graph.Launch
	case !errors.Is(err, backend.ErrUnsupported{}): // which is a device without graphs
		panic(err)
	}

	for token := range uint32(3) {
		demo.Check(be.Fill(stream, v, 0, dim, float64(token+1))) // the model's part
		shape.ContextLens[0] = token + 1
		plan = demo.Must(be.PlanAttend(shape)) // as large as the first
		demo.Check(backend.Upload(be, stream, slots, 0, []int64{int64(token)}))
		demo.Check(backend.Upload(be, stream, lengths, 0, shape.ContextLens))
		demo.Check(backend.Upload(be, stream, work, 0, plan.Work))
		demo.Check(run())
		got := make([]float32, dim)
		demo.Check(backend.Download(be, stream, got, out, 0))
		fmt.Println(got[0])
	}
	// Output:
	// 1
	// 1.5
	// 2
}
