// Package tier keeps blocks below the device: in host memory, on a disk, in a store that machines share.
//
// A tier knows a block by its key (docs/keys.md), which says all that the content depends on, and its payload, the bytes of
// the block as they lie in the pool. It knows nothing of tokens, sequences or devices.
//
// Calls block, and a tier may be used by any number of goroutines. What is asynchronous, bounded and ordered is in one Mover above all
// tiers. The mover sums each payload before any tier gets it, and checks each one that a tier returns: a wrong byte is never handed
// out, whatever a tier does. A payload of another length is a miss, too.
package tier

import (
	"context"

	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Key names a block of one group outside of the process that computed it.
type Key = prefix.Key

// Block is what a tier keeps.
type Block struct {
	Key    Key
	Parent Key    // of the block before it in its sequence; zero: it is the first. Blocks are kept and given up in this order
	Root   Key    // of the adapter and salt that it was computed under, by which Clear finds it
	Bytes  []byte // the payload, read until Put returns
	Sum    uint32 // Summed of what was stored; a tier keeps it with the payload and returns it
}

// Medium is what a tier is made of.
type Medium string

// Where blocks can be.
const (
	Memory  Medium = "memory"
	Disk    Medium = "disk"
	Network Medium = "network"
)

// Info is what a tier says of itself; it does not change.
type Info struct {
	Name     string // for people and counters, such as disk
	Medium   Medium
	Shared   bool  // other processes put and find blocks there
	Outlives bool  // what was put is found after Close, by another process
	Largest  int64 // the largest payload in bytes; 0: any
}

// Tier is a place for blocks. The first keys of a list are those of the first blocks of a sequence, so that a list is worth what
// its beginning is: Has and Get say how many of its first keys are there, and stop at the first that is not.
//
// A call whose context ends returns soon, with the context's error wrapped; what it did until then holds. Package tiertest
// checks every sentence of this contract.
type Tier interface {
	Info() Info

	// Has returns how many of the first keys are there. It reads no payload, and may be asked for each prompt.
	Has(ctx context.Context, keys []Key) (int, error)

	// Get copies the payloads of the first blocks, which have a Key and Bytes, into Bytes and sets their Sum, up to the first that is not
	// there or has another length, and returns how many. The other Bytes may have been written to. An error comes with what was read
	// before it. A tier need not check payloads: the mover does. A tier that does omits wrong ones, and counts them as Corrupt.
	Get(ctx context.Context, blocks []Block) (int, error)

	// Put stores blocks with their Sum, parents before their children, and evicts others for them. A block is there whole or not at all. One
	// that is already there counts as used, and is not written again. A tier may decline a block, which is not an error: Stats count it.
	// It declines the zero key, an empty payload and one that it has no room for, and may decline one whose Sum is wrong.
	Put(ctx context.Context, blocks []Block) error

	// Delete forgets blocks; those that are not there are no error.
	Delete(ctx context.Context, keys []Key) error

	// Clear forgets all blocks of a root; of the zero key, all blocks.
	Clear(ctx context.Context, root Key) error

	Stats() Stats

	// Close lets go of all that a tier holds, after the calls in progress; calls after it fail with ErrClosed, but for Close
	// itself, which then does nothing.
	Close() error
}

// Stats is what a tier has and has done since it was opened. Bytes are those of payloads.
type Stats struct {
	Blocks, Bytes, Capacity int64 // now, and the most that Bytes may be

	Queried, Hits       int64 // keys of Has and Get, and those that were there
	Read, Written       int64 // bytes
	Stored, Declined    int64 // blocks of Put
	Evicted, NeverUsed  int64 // blocks given up for others, and those of them that nobody had read
	Corrupt, Failures   int64 // payloads that were not what was put; calls that failed
	QuarantinedCapacity int64 // bytes that are not used any more because of what was read there
}
