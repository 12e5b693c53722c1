package kvevents

// Event is *Stored, *Removed or *Cleared.
type Event interface{ event() }

// Stored is BlockStored: blocks were added to a cache. Hashes has one hash per block, in the order of the tokens. The first of these blocks follows the
// block Parent; without a parent it is the first block of a prompt.
type Stored struct {
	Hashes    []Hash
	Parent    Hash
	HasParent bool
	Tokens    []uint32 // of all the blocks; two numbers per token if Pairs is set
	Pairs     bool     // tokens are pairs, as SGLang sends them with EAGLE
	BlockSize int      // tokens per block
	LoRAID    int64    // of the adapter; 0: none, since engines count from 1
	LoRAName  string
	Medium    string  // where the blocks are, such as GPU, CPU, DISK; "" is the engine's default, its device
	ExtraKeys [][]Key // for each block, what its hash covers besides tokens, such as images and salts; nil: not sent
	Group     int     // the group of layers that the blocks belong to, if HasGroup is set
	HasGroup  bool
	Kind      string // of the group's layers, such as full_attention or sliding_window
	Window    int    // of a sliding window, in tokens; 0: none
	Locality  string
	Ownership string
	SessionID string
	CacheSalt string  // from SGLang; vLLM sends the salt among the ExtraKeys of block 0
	Unknown   []Field // fields that this package does not know
}

// Removed is BlockRemoved: blocks are no longer on a medium.
type Removed struct {
	Hashes    []Hash
	Medium    string
	Group     int // if HasGroup is set
	HasGroup  bool
	Locality  string
	Ownership string
	Unknown   []Field
}

// Cleared is AllBlocksCleared: the publisher has no block on any medium.
type Cleared struct {
	Unknown []Field
}

func (*Stored) event()  {}
func (*Removed) event() {}
func (*Cleared) event() {}

// Hash is an engine's hash of a block, which covers all tokens from the start of the prompt to the end of the block.
type Hash struct {
	Number uint64 // the integer that was sent, in two's complement if it is negative; or the last eight of Bytes, big-endian, as vLLM shortens them
	Bytes  []byte // nil if an integer was sent
}

// Key is one of the things besides tokens that the hash of a block covers.
type Key struct {
	Text string // a name or a salt
	Raw  []byte // anything else, such as an image with its offset, as one value of MessagePack; nil: Text
}

// Field is a field of an event that this package does not know.
type Field struct {
	Name  string // "" in the array form, where fields have no names
	Value []byte // one value of MessagePack
}

// Batch is what the events of one payload share.
type Batch struct {
	Time float64 // Unix time in seconds
	Rank int     // data-parallel rank of the engine, from 0
}
