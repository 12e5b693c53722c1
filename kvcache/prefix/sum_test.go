package prefix

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sums are those of crypto/sha256 on both sides of every end of its blocks, whether they are taken out of the state or not.
func TestSumsOfPaddedMessages(t *testing.T) {
	require.True(t, inState, "crypto/sha256 writes its state in another form: change sumAt")
	defer func() { inState = true }()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, inState = range []bool{true, false} {
		for width := 1; width <= 4; width++ {
			for n := 1; n <= 80; n++ {
				tokens := make([]uint32, n)
				for i := range tokens {
					tokens[i] = rng.Uint32()>>(32-8*width) | 1<<(8*width-1)
				}
				for _, extra := range []Key{{}, {7: 1}} {
					message := []byte{'T', byte(width)}
					if extra != (Key{}) {
						message = append([]byte{'E', byte(width)}, extra[:]...)
					}
					for _, token := range tokens {
						message = append(message, binary.LittleEndian.AppendUint32(nil, token)[:width]...)
					}
					q := Query{Tokens: tokens, Extra: []Key{extra}}
					digests := q.Digests(nil, n)
					require.Equal(t, []Digest{sha256.Sum256(message)}, digests, "%d tokens of %d bytes", n, width)
					link := append(append([]byte{'B'}, extra[:]...), digests[0][:]...)
					require.Equal(t, []Key{sha256.Sum256(append(link, byte(Exact)))}, extra.Chain(nil, digests, Exact))
				}
			}
		}
	}
}
