package kronk_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv"
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/examples/kronk"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/states"
)

// identity is all that the bytes of a state depend on. A snapshot also checks the identity in its own head.
var identity = states.Identity{Model: "digest of the weights", Engine: "ferrumkv", Version: "1"}

const layers, heads, headDim = 4, 8, 128

// A conversation outlives its process, and is stored again after it has grown.
func Example() {
	base := must(os.MkdirTemp("", "kronk"))
	defer os.RemoveAll(base)
	folder := filepath.Join(base, "states")
	ctx := context.Background()

	// A process computes a prompt and stores the cache's content.
	disk := must(states.Open(folder, states.Options{Bytes: 64 << 20, Floor: 1, Network: true}))
	store := must(kronk.New(disk, identity).Open(ctx, "conversation 7"))
	kv := open()
	seq, _, err := kv.Pool.Open(make([]uint32, 600), kvcache.OpenOptions{})
	check(err)
	compute(kv, seq, 600)
	save(ctx, store, seq)
	report(disk, store, seq)
	check(seq.Release())
	check(kv.Close())
	check(store.Close())
	check(disk.Close())

	// Another process continues the conversation.
	disk = must(states.Open(folder, states.Options{Bytes: 64 << 20, Floor: 1, Network: true}))
	store = must(kronk.New(disk, identity).Open(ctx, "conversation 7"))
	kv = open()
	seq = must(kv.Pool.ReadSequence(bytes.NewReader(must(store.Bytes(ctx)))))
	fmt.Println("read", seq.Len(), "tokens")
	fmt.Printf("the mean of 0 to 600 is %.1f\n", compute(kv, seq, 1))
	compute(kv, seq, 39)
	save(ctx, store, seq)
	report(disk, store, seq)
	check(seq.Release())
	check(kv.Close())
	check(store.Close())
	check(disk.Close())
	// Output:
	// 600 tokens: 19 MiB, of which 18 are new
	// read 600 tokens
	// the mean of 0 to 600 is 300.0
	// 640 tokens: 20 MiB, of which 2 are new
}

func open() *ferrumkv.Cache {
	return must(ferrumkv.Open("cpu", kvcache.Config{
		Model:   kvcache.Model{Layers: layers, QHeads: heads, KVHeads: heads, HeadDim: headDim, Digest: []byte("digest of the weights")},
		Storage: kvcache.Storage{K: backend.F32},
		Memory:  kvcache.Memory{Layout: kvcache.Paged, Capacity: 1024},
	}))
}

// save stores a sequence. It writes the sequence twice, the first time only to learn its size.
func save(ctx context.Context, store *kronk.Session, seq *ferrumkv.Sequence) {
	size := must(seq.WriteTo(new(length)))
	snapshot := bytes.NewBuffer(must(store.Prepare(ctx, int(size)))[:0])
	must(seq.WriteTo(snapshot))
	check(store.Commit(ctx, snapshot.Len()))
}

type length struct{}

func (length) Write(b []byte) (int, error) { return len(b), nil }

func report(disk *states.Store, store *kronk.Session, seq *ferrumkv.Sequence) {
	const mib = 1 << 20
	fmt.Printf("%d tokens: %d MiB, of which %d are new\n", seq.Len(), (store.Len()+mib/2)/mib, (disk.Stats().Written+mib/2)/mib)
}

// compute appends tokens, as a model would, and returns what attention yields for the last of them. Token i has the value i, and with a query of
// zeros attention is the mean of all values.
func compute(kv *ferrumkv.Cache, seq *ferrumkv.Sequence, tokens int) float32 {
	const row = heads * headDim
	step := must(kv.NewStep())
	defer step.Close()
	q, k, v, out := make([]float32, tokens*row), make([]float32, tokens*row), make([]float32, tokens*row), make([]float32, tokens*row)
	random := rand.New(rand.NewPCG(7, uint64(seq.Len())))
	for i := range v {
		v[i] = float32(seq.Len() + i/row)
	}
	check(step.Add(seq, make([]uint32, tokens)))
	check(step.Plan())
	for layer := range layers {
		for i := range k {
			k[i] = random.Float32()
		}
		check(step.Attend(layer, ferrumkv.Rows{Q: q, K: k, V: v, Out: out}))
	}
	check(step.Commit())
	return out[len(out)-1]
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
