package states

import (
	"time"

	"github.com/ferrumkv/ferrumkv/internal/bytesize"
	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Compressor compresses chunks; zstd.Compressor of kvcache/snapshot/zstd is one. Its methods are called by several goroutines at once.
type Compressor interface {
	// Compress appends to dst a frame with the content of plain.
	Compress(dst, plain []byte) ([]byte, error)
	// Decompress appends the content of frame to dst. It returns an error if frame is invalid or if its content does not fit into the
	// capacity of dst; it does not allocate memory for such content.
	Decompress(dst, frame []byte) ([]byte, error)
}

// Options configures Open and Look. The zero value selects the defaults.
type Options struct {
	// Bytes is the budget: the most bytes that the files take, and that the parts of one state may have together. 0 means a tenth of the file
	// system. It may change from one Open to the next; states that do not fit into a smaller budget are evicted, unless they are pinned. A
	// thirty-second of it, at most 64 MiB, is reserved for rewriting packs.
	Bytes int64
	// Floor is the number of bytes of the file system that are left free. 0 means a twentieth of the file system, at most 4 GiB.
	Floor int64
	// Durable makes Put return only when what it stored would survive a crash of the machine.
	Durable bool
	// Secret is the key that everything stored is sealed with: 32 random bytes, which the owner keeps elsewhere. nil means that states are stored
	// in the clear. A directory is either sealed or in the clear for good.
	Secret []byte
	// Compressor compresses chunks where that saves a thirty-second or more; nil means no compression. Compressed chunks cannot be read without
	// a Compressor. Other chunks are read either way.
	Compressor Compressor
	// Network allows a directory on a network file system, or on one that may be a network file system, where locks may not be effective.
	Network bool
	// Copies is a tier that may hold copies of what is put. Stores in other directories, such as those of other machines, find them by Fetch if they
	// have the same Secret, or none. The caller owns the tier and closes it after the store. nil means no copies.
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
	if o.Floor > 0 && o.Floor >= total { // else all states would go for it
		return badConfig("Floor", "a floor of %s is all of the file system, which has %s; lower it", bytesize.String(o.Floor), bytesize.String(total))
	}
	if o.Bytes < 4*blockBytes {
		return badConfig("Bytes", "a budget of %s has no room for a state; raise it", bytesize.String(o.Bytes))
	}
	return nil
}
