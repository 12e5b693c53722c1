package image_test

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// A prompt with an image, whose three tokens see each other both ways. They are placeholders: what tells images apart is their
// hash. A second request with the same image computes one token only, one with another image all from there on.
func Example() {
	be := must(cpu.Open(cpu.Options{}))
	defer be.Close()
	pool := must(kvcache.NewPool(be, kvcache.Config{
		Model:   kvcache.Model{Layers: 1, KVHeads: 1, HeadDim: 1},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, BlockSize: 2},
	}))
	defer pool.Close()
	r := runner{be, must(be.NewStream()), pool.NewBatch()}

	prompt := []uint32{1, 2, placeholder, placeholder, placeholder, 6}
	for _, image := range []string{"a cat", "a cat", "a dog"} {
		seq, match, err := pool.Open(prompt, kvcache.OpenOptions{
			Items: []prefix.Item{{Begin: 2, End: 5, Hash: []byte(image)}},
			Spans: []kvcache.Span{{Begin: 2, End: 5}},
		})
		check(err)
		attention := r.forward(seq, prompt, match.Cached, []float32{1, 2, 3, 4, 5, 6})
		fmt.Printf("%s: computed %d of %d: %.1f\n", image, match.Uncached, seq.Len(), attention)
		check(seq.Release())
	}
	// Output:
	// a cat: computed 6 of 6: [1.0 1.5 3.0 3.0 3.0 3.5]
	// a cat: computed 1 of 6: [3.5]
	// a dog: computed 4 of 6: [3.0 3.0 3.0 3.5]
}

const placeholder = 99

// runner is a model of one layer. Its keys are 0, so attention is the mean of the values that a token sees.
type runner struct {
	be     *cpu.Backend
	stream backend.Stream
	step   *kvcache.Batch[*cpu.Buffer]
}

// forward computes the prompt's tokens from one on, which have values, and returns the attention of each.
func (r runner) forward(seq *kvcache.Sequence[*cpu.Buffer], prompt []uint32, from int, values []float32) []float32 {
	n := len(prompt) - from
	qk := must(backend.AllocFrom(r.be, r.stream, backend.F32, make([]float32, n)))
	v := must(backend.AllocFrom(r.be, r.stream, backend.F32, values[from:]))
	out := must(r.be.Alloc(backend.F32, n))
	io := kvcache.Dense(qk, qk, v, out)
	check(r.step.Add(seq, prompt[from:])) // the prompt's spans are known; the three tokens of one are in one step
	check(r.step.Plan(r.stream))
	check(r.step.Append(0, io))
	check(r.step.Attend(0, io))
	check(r.step.Commit())
	attention := make([]float32, n)
	check(backend.Download(r.be, r.stream, attention, out, 0))
	for _, b := range []*cpu.Buffer{qk, v, out} {
		check(r.be.Free(b))
	}
	return attention
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
