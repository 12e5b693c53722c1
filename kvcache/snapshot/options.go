package snapshot

import "github.com/ferrumkv/ferrumkv/internal/seal"

// Options is how a stream is stored. The zero value is in the clear, and as it is.
type Options struct {
	// Compressor compresses chunks where that saves anything: zstd.Compressor of package snapshot/zstd. A Reader with one reads them either
	// way; without, it takes none that are compressed.
	Compressor Compressor
	// Secret seals a stream with AES-256-GCM: 32 random bytes, which the owner keeps elsewhere. nil: it is in the clear. A Reader with a
	// secret takes no stream that was not sealed with it, one in the clear neither; without, it takes none that is sealed.
	Secret []byte
}

// What a section's coding says of its payload.
const (
	compressed = 1 << iota
	sealed
)

const (
	idBytes     = 32
	openHead    = 16                              // bytes of a section's head that are authenticated: those before its sums
	sealBytes   = seal.NonceBytes + seal.TagBytes // that a payload has more when it is sealed
	mostShrunk  = 64                              // times the bytes of its frame that a payload may have
	worthwhile  = 32                              // a payload is compressed where a part in so many is saved
	sampleBytes = 4 << 10                         // of each of the places of a payload that are tried first
	samples     = 4
)
