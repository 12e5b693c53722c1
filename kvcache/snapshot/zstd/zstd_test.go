package zstd

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
)

var _ snapshot.Compressor = Compressor{}

// What goes in comes out behind what was there, and not a byte is written behind the room.
func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 100, 4096, 1<<17 - 1, 1 << 17, 1<<20 + 3} {
		plain := make([]byte, n)
		for i := range plain {
			plain[i] = byte(rand.IntN(7))
		}
		frame, err := Compressor{}.Compress([]byte("before"), plain)
		require.NoError(t, err)
		require.Equal(t, "before", string(frame[:6]))
		again, err := Compressor{}.Compress(nil, plain)
		require.NoError(t, err)
		require.Equal(t, frame[6:], again)
		room := bytes.Repeat([]byte{0xa5}, n+100)
		got, err := Compressor{}.Decompress(room[:3:n+3], frame[6:])
		require.NoError(t, err)
		require.True(t, bytes.Equal(plain, got[3:]))
		require.True(t, n == 0 || &got[0] == &room[0])
		require.Equal(t, bytes.Repeat([]byte{0xa5}, 97), room[n+3:])
		if n > 0 {
			_, err = Compressor{}.Decompress(make([]byte, 0, n-1), frame[6:])
			require.Error(t, err)
			_, err = Compressor{}.Decompress(make([]byte, 0, n), frame[6:len(frame)-1])
			require.Error(t, err)
		}
	}
}

// Many use it at once, and failures of some are none of others.
func TestTogether(t *testing.T) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				plain := bytes.Repeat([]byte{byte(i), byte(j), 3}, 1000+100*j)
				frame, err := Compressor{}.Compress(nil, plain)
				if err != nil || len(frame) >= len(plain) {
					t.Error(len(frame), err)
				}
				if _, err := (Compressor{}).Decompress(make([]byte, 0, len(plain)), frame[:len(frame)/2]); err == nil {
					t.Error("half of a frame")
				}
				if got, err := (Compressor{}).Decompress(make([]byte, 0, len(plain)), frame); err != nil || !bytes.Equal(got, plain) {
					t.Error("differs", err)
				}
			}
		})
	}
	all.Wait()
}
