package backend

import "math"

//go:generate go run ./internal/operandgen

// An operation is told all in one struct, its parameters, whose name is the operation's and
// Params. The operands among their fields, which are buffers, stand here and nowhere else: what
// looks at every operand of a call, or passes a call on, is generated from these structs
// (from_params.go, in several packages). In errors an operand has the name of its field in small
// letters, or the one of the tag operand, where * is the name of the field that holds the
// struct. With the tag when, the operand is one only where the field that it names is not 0.

// Rows are vectors along a token axis: vector i starts at element
// Offset + i*Stride of Buf. Stride 0 is dense: the vector's own size. A fused
// projection [tokens, q+k+v] is three Rows over one buffer. A device may ask for
// offsets and strides that are multiples of 16 bytes (ErrShape).
type Rows[B Buffer] struct {
	Buf            B `operand:"*"`
	Offset, Stride int
}

// Dense returns rows that fill b from its start without gaps.
func Dense[B Buffer](b B) Rows[B] { return Rows[B]{Buf: b} }

// Plane is the keys or the values of one layer: Data has shape
// [blocks, heads, block, Dim]. A quantized type has its scales beside it, of the
// type and number that DType.Scales says. The rows of a quantized type fill whole bytes.
type Plane[B Buffer] struct {
	Data   B `operand:"*s"`
	Dim    int
	Scales Opt[B] `operand:"* scales"`
	// Hadamard says that keys, of any type, are stored turned by the Walsh-Hadamard
	// matrix, which spreads outliers over the channels: blocks of the largest power of
	// two that divides Dim, each scaled by 1/√size. Append turns keys, and queries with
	// them, which leaves q·k as it was; Rotate and Gather to f32 turn keys back
	// meanwhile. Keys only.
	Hadamard bool
}

// CacheView is one layer of a cache. Blocks*KVHeads*BlockSize*Dim elements of
// each plane are addressed. A contiguous cache is blocks of its capacity.
type CacheView[B Buffer] struct {
	K                          Plane[B] `operand:"key"`
	V                          Plane[B] `operand:"value"`
	Blocks, KVHeads, BlockSize int
}

// Ragged names the sequences of one call. Their tokens lie back to back along
// the token axis, so a batch may mix decode and prefill. A batch of no tokens is
// valid and does nothing.
type Ragged[B Buffer] struct {
	Seqs, Tokens int
	// Table is U32 [Seqs, TableStride]: the block that holds a sequence's tokens
	// i*BlockSize and on. Entries of blocks that no query sees do not matter. Unset:
	// sequence i lies in block i.
	Table       Opt[B] `operand:"block table"`
	TableStride int
	// ContextLens is U32 [Seqs]: tokens in the cache, this call's included.
	ContextLens B `operand:"context lengths"`
	// QueryOffsets is U32 [Seqs+1], the first token of each sequence and Tokens at
	// the end. Unset: one token a sequence.
	QueryOffsets Opt[B]
}

// AppendParams writes Tokens new rows. K is [Tokens, KVHeads, K dim], V is
// [Tokens, KVHeads, V dim], both of the activation type; they are converted to
// the storage type of the planes. Slots is I64 [Tokens]; −1 skips a row, any
// other slot may appear once.
//
// With Rope set, keys are rotated on their way into the cache, and Q, where
// QHeads says that there is one, is rotated in place: [Tokens, QHeads, K dim], all
// rows, also those that Slots skips. The same holds, after Rope, for keys that are
// stored with Hadamard.
//
// A quantized type takes finite values: a row of a slot that has another one is
// ErrNonFinite, from Append itself where the device is the host, which then has
// written nothing, else from the stream's next Sync, and its group reads as NaN. With
// Saturate infinities become the largest finite value of their group (of the type,
// for 8-bit floats) with their sign, and NaN becomes 0. K of Int4Channel is
// ErrUnsupported: a block gets its scales when it is full, from ConvertBlocks.
type AppendParams[B Buffer] struct {
	Cache  CacheView[B]
	Tokens int
	K, V   Rows[B]
	Slots  B
	Rope   Rope[B]
	// Positions is U32 [Tokens], set exactly when Rope is.
	Positions Opt[B]
	QHeads    int     // 0: no Q
	Q         Rows[B] `when:"QHeads"`
	Saturate  bool
}

// Rope is a rotary position embedding (RoFormer, arXiv:2104.09864) as the
// kernels use it. The zero value rotates nothing. Table is made by RoPE.Table.
type Rope[B Buffer] struct {
	Table     Opt[B]  `operand:"rope table"` // f32 [Positions, Dims/2, 2]: cos and sin of each pair's angle
	Positions int     // rows of Table
	Dims      int     // leading dims of a head that rotate; even
	Pairing   Pairing // which elements form a pair
	Magnitude float32 // factor on rotated dims, 1 unless scaled by YaRN; Rotate leaves it out
}

// Pairing is which elements of a head RoPE rotates together.
type Pairing uint8

const (
	// HalfSplit pairs (i, i+Dims/2): Hugging Face, GPT-NeoX.
	HalfSplit Pairing = iota
	// Interleaved pairs (2i, 2i+1): the paper, llama2.c, GGUF's Llama.
	Interleaved
)

// String is half-split or interleaved.
func (p Pairing) String() string {
	return [...]string{"half-split", "interleaved", "invalid"}[min(p, Interleaved+1)]
}

// AttendShape is what a plan depends on, all of it on the host. The slices must
// not be retained.
type AttendShape struct {
	QHeads, KVHeads, KDim, VDim, BlockSize int
	Format                                 Format
	ContextLens, QueryLens                 []uint32 // [seqs]
	NonCausal                              bool
	// Window and SinkTokens are the widest of the masks that the plan will serve; a
	// layer may use it with a narrower window.
	Window, SinkTokens int
	// Part and Recent are those of all masks that the plan will serve, and BlockSize is the cache's.
	Part   Part
	Recent int
	Mass   bool     // AttendParams.Out.Mass may be set
	Work   []uint32 // scratch the plan may append to and return

	// Table, on the host what Ragged.Table is on the device, U32 [seqs, TableStride], lets a
	// device read once what sequences have in common: those whose tables begin with the
	// same blocks attend to them as one, and merge (cascade attention). Such a plan is for
	// calls with this very table; the CPU refuses others (ErrShape). nil: each sequence reads all
	// that it sees. A plan with a Window has none of it, nor has one of RecentKeys.
	Table       []uint32
	TableStride int
	// MinShared is the fewest tokens that sequences are read as one for; 0: as many as
	// pay on the device, and none on one whose bits are not to depend on what else is in a step
	// (cpu.Options.Reproducible).
	MinShared int
	// Fixed makes a plan whose launches, and the lengths of Work and Workspace, are the same
	// whatever ContextLens and the blocks in Table are: what a Graph needs. All else stays, also
	// whether there is a Table, and TableStride. Parts of the plan are empty.
	Fixed bool
}

// AttendPlan is a device's split of one step's attention. The caller uploads
// Work into a U32 buffer, provides Workspace f32 elements, and hands both to
// every layer's Attend.
type AttendPlan struct {
	Work      []uint32 // opaque; valid as long as AttendShape.Work
	Items     int      // units of work in it
	Parts     int      // partial results to be merged; 0: none
	Workspace int      // f32 elements; 0: none
	Mass      bool     // good for calls that accumulate attention mass
}

// Part is one of the parts into which Mask.Recent divides what a query sees.
type Part uint8

const (
	AllKeys    Part = iota
	OlderKeys       // before the query's edge
	RecentKeys      // from it on
)

// Mask says which keys a query sees and how its scores are changed. The zero
// value is causal: token i of n sees keys up to position context − n + i.
// Scores are scale*q·k, then SoftCap, then ALiBi, then the mask.
type Mask[B Buffer] struct {
	NonCausal bool // every query sees its sequence's whole context; Window and SinkTokens must be 0
	// Window > 0: a query at position p sees only keys after p − Window, which are Window
	// of them with its own …
	Window int
	// … and the first SinkTokens keys (StreamingLLM, arXiv:2309.17453).
	SinkTokens int
	// Part shows a query one part of the keys that it would see: those before its edge, or the
	// others. The edge of the query at position p is max(0, p + 1 − Recent), rounded down to whole
	// blocks of the cache, which depends on p alone, however a prompt is cut. So two caches hold a
	// sequence, the older tokens quantized and the recent ones exact (KIVI, arXiv:2402.02750), both at
	// the tokens' places in the whole sequence; blocks that a part does not show are never read. Merge
	// makes one result of the two. Recent is at least 1 and the mask causal; with AllKeys it is 0.
	Part    Part
	Recent  int
	SoftCap float32 // > 0: score = SoftCap * tanh(score/SoftCap)
	// ALiBi is f32 [QHeads], slopes: score += slope * (key − query position).
	ALiBi Opt[B] `operand:"ALiBi slopes"`
	// SinkLogits is f32 [QHeads]: a logit that takes probability and gives no value.
	// Values of both have to be finite, else outputs may be NaN: they lie in the device's
	// memory and are not checked. (kvcache.Config.Masks are.)
	SinkLogits Opt[B]
}

// Outputs is where Attend writes. A query with no key to attend to gives zeros
// and a log-sum-exp of −∞ (of its sink logit where there is one), never NaN; so do
// the first queries of a sequence that has more of them than context.
type Outputs[B Buffer] struct {
	Rows Rows[B] `operand:"out"` // [Tokens, QHeads, V dim], activation type
	// LSE is f32, [Tokens, QHeads] from element LSEOffset on: the natural logarithm
	// of the softmax denominator.
	LSE       Opt[B] `operand:"log-sum-exp"`
	LSEOffset int
	// Mass is f32 [blocks, KVHeads, block]: each slot's attention probability, summed
	// over the call's queries and the heads of the group, is added (H2O, arXiv:2306.14048).
	// The order of the additions is the device's: where several queries add to one
	// slot, the last bits may differ from run to run.
	Mass Opt[B] `operand:"attention mass"`
}

// AttendParams is one layer's attention. Q is [Tokens, QHeads, K dim]; query
// head h reads KV head h*KVHeads/QHeads. Plan, Work and Workspace are those of
// PlanAttend for the same shape.
type AttendParams[B Buffer] struct {
	Cache           CacheView[B]
	Batch           Ragged[B]
	Q               Rows[B]
	QHeads          int
	Scale           float32 // factor of q·k, usually 1/√(K dim); finite and positive
	Mask            Mask[B]
	Out             Outputs[B]
	Plan            AttendPlan
	Work, Workspace Opt[B]
	// Int8Query also rounds each query row to int8, symmetrically, so that scores are
	// integer products: faster and less exact. A backend may round weights, too, to 1/32767 of the
	// largest of those that it multiplies with values at once. For the types of Caps.Int8Query.
	Int8Query bool
}

// MergeParams combines Parts attention results over disjoint keys, as produced
// by Attend into one buffer: In is [Parts, Tokens, Heads, Dim], LSE is f32
// [Parts, Tokens, Heads]. Out is [Tokens, Heads, Dim], OutLSE f32 [Tokens, Heads].
// In and Out are activation types, In also f32. Out may not overlap In.
//
// A part with a log-sum-exp of −∞ is empty: it counts for nothing, whatever it holds. So
// does one of +∞, which other attention kernels write for a query that sees no key
// (vLLM's merge_attn_states reads it alike). Where every part is empty the result is 0 and
// its log-sum-exp −∞. A log-sum-exp of NaN makes its row NaN, and the row's log-sum-exp,
// so that it is not mistaken for an empty one.
type MergeParams[B Buffer] struct {
	Parts, Tokens, Heads, Dim int
	In                        B
	LSE                       B `operand:"log-sum-exp"`
	Out                       Rows[B]
	OutLSE                    Opt[B] `operand:"out log-sum-exp"`
}

// GatherParams reads tokens [Begin, Begin+Len) of one sequence, whose block table
// is U32 from element TableOffset of Table on (unset: the sequence lies in block
// TableOffset). K and V are dense [KVHeads, Len, dim], of the planes' storage
// type (bit-exact) or f32; what is quantized is gathered as f32 only. Keys that are stored
// with Hadamard are turned back where they are gathered as f32, also from f32, and come as
// they are stored where they are gathered as f16 or bf16.
type GatherParams[B Buffer] struct {
	Cache       CacheView[B]
	Table       Opt[B] `operand:"block table"`
	TableOffset int
	Begin, Len  int
	K, V        Opt[B]
	// Mass is the attention mass of the cache's slots (see Outputs), where Scores, f32 [KVHeads, Len] from
	// element ScoresOffset on, is to have that of the tokens.
	Mass         Opt[B] `operand:"attention mass"`
	Scores       Opt[B]
	ScoresOffset int
}

// ClearMassParams sets the attention mass of slots to 0, for all heads: Mass is f32 [Blocks, KVHeads,
// BlockSize], Slots is I64 [N], of which −1 is none.
type ClearMassParams[B Buffer] struct {
	Mass                       B `operand:"attention mass"`
	Blocks, KVHeads, BlockSize int
	Slots                      B
	N                          int
}

// NoBlock in the place of a pair's source is no pair: it is skipped. A list of one length in every
// step is filled up with it.
const NoBlock uint32 = math.MaxUint32

// CopyBlocksParams copies block Pairs[i][0] of From to block Pairs[i][1] of To, which may be
// the same cache and else is one of the same types, heads, block size, dims and Hadamard:
// keys, values, their scales, and the attention mass of the slots (see Outputs), where that
// of both caches is set. Pairs is U32 [N, 2], of which some may be NoBlock. A destination may appear once and, within
// one cache, may not be a source of the same call. Scales that are given for a cache's
// heads, those of 8-bit floats, stay as they are: the caller sees to it that both caches have
// the same ones.
type CopyBlocksParams[B Buffer] struct {
	From, To CacheView[B]
	FromMass Opt[B]
	ToMass   Opt[B]
	Pairs    B
	N        int
}

// MoveSlotsParams copies slot Pairs[i][0] to slot Pairs[i][1]. Pairs is I64
// [N, 2]. The result is as if the pairs were done one after another, so a list
// sorted by destination closes gaps in place. Scales go along, and attention mass where
// it is set. Keys of Int4Channel are ErrUnsupported: the slots of a block share scales.
type MoveSlotsParams[B Buffer] struct {
	Cache CacheView[B]
	Mass  Opt[B] `operand:"attention mass"`
	Pairs B
	N     int
}

// ConvertBlocksParams stores block Pairs[i][0] of From as block Pairs[i][1] of To, which
// has the same heads, block size and dims and other storage types: blocks become
// smaller as they grow old, or exact before they are written again. Pairs is U32
// [N, 2], of which some may be NoBlock; a destination may appear once. One cache is of Act, in both planes, and the
// other of quantized types that Caps lists with it. Keys are turned where one of
// the two has Hadamard. Values that are not finite: as in AppendParams. The attention mass of
// the slots (see Outputs) goes along where that of both caches is set, in two buffers.
type ConvertBlocksParams[B Buffer] struct {
	From, To CacheView[B]
	FromMass Opt[B]
	ToMass   Opt[B]
	Pairs    B
	N        int
	Saturate bool
}

// RotateParams turns the keys at Slots (I64 [N], −1 skips, any other slot may
// appear once) by Deltas (I32 [N]) positions, forward or back, by less than
// Rope.Positions. Quantized keys are quantized anew, each within half a step of the turned
// one; keys of Int4Channel are ErrUnsupported.
type RotateParams[B Buffer] struct {
	Cache         CacheView[B]
	Slots, Deltas B
	N             int
	Rope          Rope[B]
}
