package states

import (
	"time"

	"github.com/ferrumkv/ferrumkv/internal/bytesize"
	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Compressor compresses chunks: zstd.Compressor of kvcache/snapshot/zstd is one. It is used by several goroutines at once.
type Compressor interface {
	// Compress appends a frame with what plain has to dst.
	Compress(dst, plain []byte) ([]byte, error)
	// Decompress appends what a frame has to dst. An error is that it has more than dst has room for, for which no memory is taken, or is none.
	Decompress(dst, frame []byte) ([]byte, error)
}

// Options is how a directory is opened. The zero value has defaults for all.
type Options struct {
	// Bytes is the most that the files take, and that the parts of one state may have; 0: a tenth of the file system. It may be another
	// one each time: what does not fit into a smaller one goes. A thirty-second of it, at most 64 MiB, is left for packs that are rewritten.
	Bytes int64
	// Floor is how many bytes of the file system are left free; 0: a twentieth of it, at most 4 GiB.
	Floor int64
	// Durable has Put return when what it stored is on the disk whatever happens.
	Durable bool
	// Secret seals what is stored: 32 random bytes, which the owner keeps elsewhere. nil: it is in the clear. A directory is one or the other.
	Secret []byte
	// Compressor compresses chunks where that saves a thirty-second or more. Chunks that are compressed are not read without; all others
	// are read either way.
	Compressor Compressor
	// Network admits a directory on a network file system, or on one that may be: locks may not hold there.
	Network bool
	// Copies is a tier that may hold copies of what is put, for directories of other machines with the same Secret, or none: see Fetch. It stays the
	// caller's, who closes it after the store. nil: there are none.
	Copies tier.Tier

	now   func() time.Time  // nil: time.Now
	disk  *disk             // nil: the machine's
	sizes *sizes            // nil: usual
	mover tier.MoverOptions // of Copies
}

// mostPack is the most bytes that a pack has, but for one that is for a single chunk, and of a small budget a part in so many.
const (
	mostPack   = 64 << 20
	packsShare = 32
)

// blockBytes is what files are rounded up to where they are counted.
const blockBytes = 4096

// onDisk is what a file takes.
func onDisk(n int64) int64 { return (n + blockBytes - 1) / blockBytes * blockBytes }

// filled is the options with what their zero values stand for.
func (o Options) filled(dir string) (Options, error) {
	switch {
	case dir == "":
		return o, badConfig("dir", "it is empty; name a directory")
	case o.Bytes < 0:
		return o, badConfig("Bytes", "a budget of %d bytes is negative", o.Bytes)
	case o.Floor < 0:
		return o, badConfig("Floor", "a floor of %d bytes is negative", o.Floor)
	case o.Secret != nil && len(o.Secret) != seal.SecretBytes:
		return o, badConfig("Secret", "it has %d bytes, and must have %d random ones", len(o.Secret), seal.SecretBytes)
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.disk == nil {
		o.disk = &machine
	}
	if o.sizes == nil {
		o.sizes = &usual
	}
	return o, nil
}

// measured sets budget and floor where the options leave them to the size of the file system.
func (o *Options) measured(dir string) error {
	_, total, err := o.disk.space(dir)
	if err != nil {
		return err
	}
	if o.Bytes == 0 {
		o.Bytes = total / 10
	}
	if o.Floor == 0 {
		o.Floor = min(total/20, 4<<30)
	}
	if o.Bytes < 4*blockBytes {
		return badConfig("Bytes", "a budget of %s has no room for a state; raise it", bytesize.String(o.Bytes))
	}
	return nil
}
