package cpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Random sets of planes, from a byte to more than a worker's part of a block, are packed and unpacked as a naive copy does, on one worker
// and several, through the caches and around them: what is beside the blocks stays.
func TestBlockSetsAgainstModel(t *testing.T) {
	around, parts := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		be, err := Open(Options{Threads: rapid.IntRange(1, 3).Draw(t, "threads")})
		require.NoError(t, err)
		s, err := be.NewStream()
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(1, uint64(rapid.IntRange(0, 1<<30).Draw(t, "seed"))))
		blocks := rapid.IntRange(1, 4).Draw(t, "blocks")
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(copyPiece/3, copyPiece+1)), 1, 9).Draw(t, "sizes")
		whole := rapid.IntRange(0, 3).Draw(t, "whole") == 0 // several parts of every block, around the caches
		if whole {
			blocks, sizes = 4, append(sizes, copyPiece, largeCopy/4)
		}
		planes, images, total := make([]backend.BlockPlane[*Buffer], len(sizes)), make([][]byte, len(sizes)), 0
		for i, each := range sizes {
			buf, err := be.Alloc(backend.Int8, each*blocks)
			require.NoError(t, err)
			images[i] = noise(random, each*blocks)
			require.NoError(t, be.Upload(s, buf, 0, images[i]))
			planes[i], total = backend.BlockPlane[*Buffer]{Buf: buf, Each: each}, total+each
		}
		set, err := backend.NewBlockSet(be, planes)
		require.NoError(t, err)
		const lead = 5
		host, err := backend.HostAlloc(be, int64(lead+4*total+3))
		require.NoError(t, err)
		want := noise(random, len(host.Bytes()))
		copy(host.Bytes(), want)
		list := rapid.SliceOfN(rapid.Uint32Range(0, uint32(blocks-1)), 0, 4).Draw(t, "list")
		require.NoError(t, set.Pack(s, list, host, lead))
		at := lead
		for _, b := range list {
			for i, each := range sizes {
				at += copy(want[at:], images[i][int(b)*each:][:each])
			}
		}
		require.True(t, bytes.Equal(want, host.Bytes()))

		list = rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(blocks-1)), 0, blocks, rapid.ID).Draw(t, "list back")
		if whole {
			list = []uint32{2, 0, 3, 1}
		}
		require.NoError(t, set.Unpack(s, list, host, lead+3))
		at = lead + 3
		for _, b := range list {
			for i, each := range sizes {
				copy(images[i][int(b)*each:][:each], want[at:])
				at += each
			}
		}
		for i := range planes {
			got := make([]byte, len(images[i]))
			require.NoError(t, be.Download(s, got, planes[i].Buf, 0))
			require.True(t, bytes.Equal(images[i], got), "plane %d", i)
		}
		require.True(t, bytes.Equal(want, host.Bytes()))
		if len(list)*total >= largeCopy {
			around++
		}
		if total > copyPiece && len(sizes) > 1 {
			parts++
		}
		require.NoError(t, set.Close())
		require.NoError(t, host.Close())
		require.NoError(t, be.Close())
	})
	if !testing.Short() { // 20 histories may lack it
		require.NotZero(t, around)
		require.NotZero(t, parts)
	}
}

// noise is n random bytes.
func noise(random *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(random.Uint32())
	}
	return out
}
