package states

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

const kvHeads, headDim, stateBytes = 2, 64, 4096

var windowed = []config.Group{{Kind: group.Window, Layers: []int{0, 1}, Window: 256}, {Kind: group.Full, Layers: []int{2, 3}}}

// A conversation that has grown is stored again with little more than the sections of its snapshot that are new, and these are about what
// was computed since, in pools of all kinds. (Not where layers that attend in chunks begin another one: what they give up then lay between
// what others keep.)
func TestGrownSequence(t *testing.T) {
	for name, c := range map[string]struct {
		layout  kvcache.Layout
		groups  []config.Group
		storage kvcache.Storage
	}{
		"paged":      {kvcache.Paged, nil, kvcache.Storage{K: backend.F32}},
		"contiguous": {kvcache.Contiguous, nil, kvcache.Storage{K: backend.F32}},
		"int8":       {kvcache.Paged, nil, kvcache.Storage{K: backend.Int8}},
		"int4":       {kvcache.Paged, nil, kvcache.Storage{K: backend.Int4}},
		"channels":   {kvcache.Paged, nil, kvcache.Storage{K: backend.Int4Channel, V: backend.Int4, Residual: 32}},
		"residual":   {kvcache.Paged, nil, kvcache.Storage{K: backend.Int8, Residual: 32}},
		"windows":    {kvcache.Paged, windowed, kvcache.Storage{K: backend.F32}},
		"chunks": {kvcache.Paged, []config.Group{
			{Kind: group.Chunked, Layers: []int{0, 1}, Chunk: 640}, {Kind: group.Full, Layers: []int{2, 3}},
		}, kvcache.Storage{K: backend.Int8}},
		"states": {kvcache.Paged, []config.Group{
			{Kind: group.State, Layers: []int{0, 1}, StateBytes: stateBytes}, {Kind: group.Full, Layers: []int{2, 3}},
		}, kvcache.Storage{K: backend.F32}},
		"windows of int4": {kvcache.Paged, windowed, kvcache.Storage{K: backend.Int4}},
	} {
		t.Run(name, func(t *testing.T) {
			if !testsize.Full() && c.groups == nil && name != "paged" && name != "channels" {
				t.Skip("the other formats and layouts, in full tests")
			}
			be, err := cpu.Open(cpu.Options{})
			require.NoError(t, err)
			defer be.Close()
			pool, err := kvcache.NewPool(be, kvcache.Config{
				Model: kvcache.Model{
					Layers: 4, QHeads: kvHeads, KVHeads: kvHeads, HeadDim: headDim, Act: backend.F32, Groups: c.groups, Digest: []byte("weights"),
				},
				Storage: c.storage,
				Memory:  kvcache.Memory{Layout: c.layout, Capacity: 2048, MaxSeqs: 1},
			})
			require.NoError(t, err)
			defer pool.Close()
			seq, _, err := pool.Open(make([]uint32, 1001), kvcache.OpenOptions{})
			require.NoError(t, err)

			s, err := Open(t.TempDir()+"/d", Options{disk: &quick, sizes: &sizes{512, 2 << 10, 8 << 10}, Network: true})
			require.NoError(t, err)
			known := map[string]bool{}
			for turn, tokens := range []int{1001, 23, 23, 23} {
				grow(t, be, pool, seq, tokens)
				var stream bytes.Buffer
				_, err := seq.WriteTo(&stream)
				require.NoError(t, err)
				before := s.Stats().Written
				info := put(t, s, numbered(1), stream.Bytes())
				requireState(t, s, info.ID, stream.Bytes())

				fresh, runs, last := 0, 0, true // runs of sections that are new
				for _, section := range sections(stream.Bytes()) {
					if !known[section] {
						fresh += len(section)
						if last {
							runs++
						}
					}
					last, known[section] = known[section], true
				}
				if turn > 0 {
					require.Less(t, fresh, stream.Len()/5)
					require.Less(t, int(s.Stats().Written-before), fresh+runs*s.o.sizes.max)
				}
			}
			require.NoError(t, seq.Release())
		})
	}
}

// sections are those of a snapshot, with its header before them.
func sections(stream []byte) []string {
	const header, section = 16, 24
	out := []string{string(stream[:header])}
	for rest := stream[header:]; len(rest) > 0; {
		n := section + binary.LittleEndian.Uint64(rest[8:])
		out, rest = append(out, string(rest[:n])), rest[n:]
	}
	return out
}

// grow computes tokens of a sequence: what is written for them is random.
func grow(t *testing.T, be *cpu.Backend, pool *kvcache.Pool[*cpu.Buffer], seq *kvcache.Sequence[*cpu.Buffer], tokens int) {
	stream, err := be.NewStream()
	require.NoError(t, err)
	step := pool.NewBatch()
	random := rand.New(rand.NewPCG(uint64(seq.Len()), 2))
	require.NoError(t, step.Add(seq, make([]uint32, tokens)))
	require.NoError(t, step.Plan(stream))
	for layer := range 4 {
		if g := pool.Config().Model.Groups; len(g) > 0 && g[0].Kind == group.State && layer < 2 {
			view, err := step.State(layer)
			require.NoError(t, err)
			words := make([]uint32, stateBytes/4)
			for i := range words {
				words[i] = random.Uint32()
			}
			require.NoError(t, backend.Upload(be, stream, view.Buf, int(view.Offsets[0]/4), words))
			continue
		}
		rows := make([]float32, tokens*kvHeads*headDim)
		for i := range rows {
			rows[i] = random.Float32() - 0.5
		}
		kv, err := backend.AllocFrom(be, stream, backend.F32, rows)
		require.NoError(t, err)
		require.NoError(t, step.Append(layer, kvcache.LayerIO[*cpu.Buffer]{K: backend.Dense(kv), V: backend.Dense(kv)}))
		require.NoError(t, stream.Sync())
		require.NoError(t, be.Free(kv))
	}
	require.NoError(t, step.Commit())
	require.NoError(t, step.Close())
	require.NoError(t, stream.Close())
}
