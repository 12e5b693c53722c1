package backend

import "math"

//go:generate go run ./internal/operandgen

// An operation is told all in one struct, its parameters, whose name is the operation's and
// Params. The operands among their fields, which are buffers, stand here and nowhere else: what
// looks at every operand of a call, or passes a call on, is generated from these structs
// (from_params.go, in several packages). In errors an operand has the name of its field in small
// letters, or the one of the tag operand, where * is the name of the field that holds the
// struct. With the tag when, the operand is one only where the field that it names is not 0, or, after a !,
// where the flag that it names is not set.

// Rows are vectors along a token axis: vector i starts at element Offset + i*Stride of Buf. With
// Stride 0 the vectors lie back to back. A fused projection [tokens, q+k+v] is three Rows over one
// buffer. A device may require offsets and strides that are multiples of 16 bytes (ErrArgument).
type Rows[B Buffer] struct {
	Buf            B `operand:"*"`
	Offset, Stride int
}

// Dense returns rows that lie back to back from the start of b.
func Dense[B Buffer](b B) Rows[B] { return Rows[B]{Buf: b} }

// Plane is the keys or the values of one layer: Data is [blocks, heads, block, Dim]. A quantized
// type has its scales in a second buffer, of the type and length of DType.Scales. The rows of a
// quantized type fill whole bytes.
type Plane[B Buffer] struct {
	Data   B `operand:"*s"`
	Dim    int
	Scales Opt[B] `operand:"* scales"`
	// Hadamard says that keys, of any storage type, are stored multiplied by a Walsh-Hadamard
	// matrix, which spreads outliers over the channels: in blocks of the largest power of two that
	// divides Dim, each scaled by 1/√size. Append transforms the keys, and the queries too, so that
	// q·k stays the same. Rotate, and Gather to f32, transform keys back first. For keys only.
	Hadamard bool
}

// CacheView is one layer of a cache: each plane has Blocks*KVHeads*BlockSize*Dim elements. In a
// contiguous cache a block is the whole capacity of a sequence.
//
// A latent cache has one plane, the keys, whose first V.Dim elements are the values, too: the absorbed form of
// multi-head latent attention (MLA; DeepSeek-V2, arXiv:2405.04434), with K.Dim 576 of a latent of 512 and
// 64 rotated elements. K.Dim is at least V.Dim. V.Data and V.Scales have no meaning and are not looked at, and in a
// Format V is the type of K. Pairs of dims that Caps.SupportsLatent refuses, keys with Hadamard, and types whose
// scales belong to channels (Int4Channel) are ErrUnsupported.
type CacheView[B Buffer] struct {
	K                          Plane[B] `operand:"key"`
	V                          Plane[B] `operand:"value" when:"!Latent"`
	Blocks, KVHeads, BlockSize int
	Latent                     bool
}

// Ragged describes the sequences of one call. Their tokens lie back to back along the token axis,
// so a batch may mix decode and prefill. A batch without tokens is valid and does nothing. With a
// Table a sequence may be in a batch several times, with other queries and other lengths.
type Ragged[B Buffer] struct {
	Seqs, Tokens int
	// Table is the block table, U32 [Seqs, TableStride]: entry i of a sequence is the block of its
	// tokens from i*BlockSize on. Entries of blocks that no query sees may have any value. Unset:
	// sequence i lies in block i.
	Table       Opt[B] `operand:"block table"`
	TableStride int
	// ContextLens is U32 [Seqs]: each sequence's tokens in the cache, including those of this call.
	ContextLens B `operand:"context lengths"`
	// QueryOffsets is U32 [Seqs+1]: the first token of each sequence, and Tokens at the end. Unset:
	// one token for each sequence.
	QueryOffsets Opt[B]
	// Views is U32 [Tokens, 2]: the position of each query, at most MaxPosition, and its end, at most
	// the context: one past the last key that it may see. Unset: query i of a sequence's n is its
	// token at position context − n + i, and its end is the position + 1, or the context where the
	// mask is NonCausal. With Views the queries need not be tokens of the sequence, positions may be
	// beyond the context, and the mask is not NonCausal: ends say what it would. The tokens of an
	// image that see each other have the end of the image; queries of cross attention, and of a step
	// that appends nothing, have the context. For devices with Caps.Views.
	Views Opt[B]
	// Tree is U32 [Tokens, TreeWords]: the drafts of trees (SpecInfer, arXiv:2305.09781; Medusa,
	// arXiv:2401.10774; EAGLE, arXiv:2401.15077). To a query with a bit set in its row, the keys of
	// its sequence's n tokens of this call, those from context − n on, are drafts: it sees the j-th
	// if bit j is set, which is bit j%32 of word j/32. These are its ancestors and itself; bits from n
	// on are 0. Its position is its depth in the tree after the keys before the drafts, and like its
	// end not below context − n. A query whose row is 0 is in no tree, as prompts in the same batch
	// are. The mask is not NonCausal. For devices with Caps.TreeWords.
	//
	// Devices with Caps.ChecksIDs report Views and Tree that are not like this as ErrArgument; on
	// others the output of such a row is unspecified.
	Tree      Opt[B]
	TreeWords int // words of a row, at least 1; at most Caps.TreeWords
}

// AppendParams writes the keys and values of Tokens new tokens into the cache. K is [Tokens,
// KVHeads, K dim], V is [Tokens, KVHeads, V dim], both of the activation type; they are converted
// to the storage types of the planes. Slots is I64 [Tokens]: where each token is written; −1 skips
// it. A slot may appear once.
//
// With Rotary set, keys are rotated before they are stored, and Q [Tokens, QHeads, K dim], when
// QHeads is not 0, is rotated in place: all rows, including those with slot −1. The Hadamard
// transform of keys that are stored with Plane.Hadamard, and of Q, comes after that.
//
// A key of a latent cache comes in two operands, as models compute it: V is its first elements, the latent, [Tokens,
// KVHeads, V dim], and K is the rest, [Tokens, KVHeads, K dim − V dim], which may be no elements. Rotary turns
// the rest, and in Q, which is [Tokens, QHeads, K dim], the elements after the first V dim; it has at most K dim
// − V dim Dims. ErrNonFinite calls the whole key one.
//
// Quantized types store finite values only. A row with another value is ErrNonFinite: a device in
// host memory returns it from Append, which then has written nothing; other devices return it from
// the stream's next Sync, and the value's group reads as NaN. With Saturate an infinity is stored
// as the largest finite value of its group (for 8-bit floats, of the type) with its sign, and NaN
// as 0. What counts is the value to be quantized: a finite key whose rotation or transform leaves the
// range of float32 is ErrNonFinite, too.
//
// Finite values are stored as finite values. The scales that a type's rows have cover magnitudes up to
// 0x1.ep127 (3.19e38), those of MXFP4 up to 1.5 * 2^127, and larger ones are stored as that limit. With the
// scales of heads, which the caller sets, that holds as long as the scale times the type's largest code is
// finite.
//
// Keys of Int4Channel are ErrUnsupported: the scales of a block are computed when it is full, by
// ConvertBlocks.
type AppendParams[B Buffer] struct {
	Cache  CacheView[B]
	Tokens int
	K, V   Rows[B]
	Slots  B
	Rotary RotaryTable[B]
	// Positions is U32 [Tokens]. It is set if and only if Rotary is.
	Positions Opt[B]
	QHeads    int     // 0: no Q
	Q         Rows[B] `when:"QHeads"`
	Saturate  bool
}

// RotaryTable is a rotary position embedding (RoFormer, arXiv:2104.09864) as the kernels read it.
// The zero value rotates nothing. RoPE.Table computes Table.
type RotaryTable[B Buffer] struct {
	Table     Opt[B]  `operand:"rope table"` // f32 [Positions, Dims/2, 2]: cos and sin of each pair's angle
	Positions int     // rows of Table
	Dims      int     // the first dims of a head, of a latent cache those after the latent, are rotated; even
	Pairing   Pairing // which elements form a pair
	Magnitude float32 // factor of rotated dims, 1 except with YaRN; Rotate does not apply it
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

// MarshalText is String, of a valid pairing: JSON has pairings by their names.
func (p Pairing) MarshalText() ([]byte, error) { return nameText("Pairing", p, Interleaved) }

// UnmarshalText is the inverse of MarshalText.
func (p *Pairing) UnmarshalText(text []byte) error { return parseName("Pairing", text, p, Interleaved) }

// AttendShape is what a plan depends on, all of it in host memory. The slices must not be retained.
type AttendShape struct {
	QHeads, KVHeads, KDim, VDim, BlockSize int
	Format                                 Format
	Latent                                 bool     // as in CacheView
	ContextLens, QueryLens                 []uint32 // [seqs]
	NonCausal                              bool
	// Window and SinkTokens are the widest of all masks that the plan is used with; a layer may
	// have a narrower window.
	Window, SinkTokens int
	// Chunk is that of all masks that the plan is used with. A plan without one, and without a
	// window, is good for any.
	Chunk int
	// Views is what Ragged.Views holds, U32 [tokens, 2], where calls have it; nil: they do not. A plan
	// is valid for these very views only.
	Views []uint32
	// TreeWords is Ragged.TreeWords where calls have a Tree, and 0 where they do not. The bits may be
	// others than those of the last step.
	TreeWords int
	// Part and Residual are those of all masks that the plan is used with.
	Part     Part
	Residual int
	Scores   bool     // the plan is for calls with Outputs.Scores, too
	Work     []uint32 // memory to reuse: the plan may append to it and return it

	// Table is Ragged.Table in host memory, U32 [seqs, TableStride]. With it a device reads the
	// blocks that several sequences begin with once for all of them, and merges the results
	// (cascade attention). Such a plan is valid for this very table only; the CPU refuses others
	// (ErrArgument). nil: each sequence reads all that it sees. Plans with a Window, a Chunk or
	// ResidualKeys read nothing together.
	Table       []uint32
	TableStride int
	// MinShared is the fewest common tokens that are read once for several sequences. 0: as many as
	// are worth it on the device, or none where results may not depend on what else is in the step
	// (cpu.Options.Reproducible).
	MinShared int
	// Fixed makes a plan whose launches, and the lengths of Work and Workspace, do not depend on
	// ContextLens or on the blocks in Table, as a Graph needs; some of its work is then empty. All
	// else must stay the same from step to step, including TableStride and whether there is a Table.
	// Such a plan has no Views (ErrUnsupported); trees do without where no layer has a window, a chunk
	// or ALiBi, since bits say what drafts see.
	Fixed bool
}

// AttendPlan is how a device divides one step's attention. The caller uploads Work into a U32
// buffer, allocates a Workspace, and passes both to Attend of every layer.
type AttendPlan struct {
	Work      []uint32 // opaque; may be memory of AttendShape.Work
	Items     int      // work items
	Parts     int      // partial results to be merged; 0: none
	Workspace int      // f32 elements; 0: none
	Scores    bool     // it is valid for calls with Outputs.Scores
}

// Part selects the keys on one side of the edge that Mask.Residual defines.
type Part uint8

const (
	AllKeys      Part = iota
	OlderKeys         // those before the query's edge
	ResidualKeys      // those from the edge on
)

// Mask says which keys a query sees and how its logits are changed. The zero value is causal: token
// i of n sees the keys up to position context − n + i. Logits are Scale*q·k, then SoftCap, then
// ALiBi, then the mask.
//
// A query at position p with end e (see Ragged.Views) sees the key at position k if k < e and
//
//   - with a Window: p − Window < k < p + Window, or k < SinkTokens;
//   - with a Chunk: k/Chunk = p/Chunk;
//   - with OlderKeys: k < edge, and with ResidualKeys: k ≥ edge (see Part).
//
// Of drafts (see Ragged.Tree) it sees those whose bits are set, wherever the window, the chunk and the
// end are. They belong to ResidualKeys, wherever the edge is.
type Mask[B Buffer] struct {
	NonCausal bool // the end of a query is its context, not the key after its own
	// Window > 0: a query at position p sees the keys after p − Window, its own key included, and,
	// where its end is that far, those before p + Window (Longformer, arXiv:2004.05150). With
	// NonCausal it is for devices with Caps.Views.
	Window int
	// SinkTokens are the first keys, which a query sees in spite of its window (StreamingLLM,
	// arXiv:2309.17453).
	SinkTokens int
	// Chunk > 0: positions are cut into chunks of that many, and a query sees keys of its own one only
	// (Llama 4). Window and SinkTokens are 0 then. For devices with Caps.Chunk.
	Chunk int
	// Part limits a query to the keys before its edge, or to those from the edge on. The edge of
	// the query at position p is max(0, p + 1 − Residual), rounded down to a whole block: it
	// depends on p alone, not on how a prompt is divided into steps. With it one sequence can be in
	// two caches: older tokens quantized and the last Residual ones not (KIVI, arXiv:2402.02750).
	// Both caches have a token at its position in the whole sequence; blocks of keys that a query
	// does not see are not read. Merge combines the two results. Residual is at least 1 and the
	// mask causal; with AllKeys Residual is 0.
	Part     Part
	Residual int
	SoftCap  float32 // > 0: logit = SoftCap * tanh(logit/SoftCap)
	// ALiBi is f32 [QHeads], slopes: logit += slope * (key position − query position). A drafted key
	// (Ragged.Tree) is at the position of its own token in Ragged.Views, if there are any.
	ALiBi Opt[B] `operand:"ALiBi slopes"`
	// SinkLogits is f32 [QHeads]: a learned logit for each head that takes part in the softmax and
	// has no value (attention sink). The values of ALiBi and SinkLogits must be finite, else
	// outputs may be NaN: they are in device memory and are not checked.
	SinkLogits Opt[B]
}

// Outputs is where Attend writes. A query that sees no key gets zeros and a log-sum-exp of −∞ (with
// SinkLogits: the sink logit), never NaN; so do the first queries of a sequence that has more
// queries than context.
type Outputs[B Buffer] struct {
	Rows Rows[B] `operand:"out"` // [Tokens, QHeads, V dim], activation type
	// LSE is f32 [Tokens, QHeads], from element LSEOffset on: the natural logarithm of the softmax
	// denominator.
	LSE       Opt[B] `operand:"log-sum-exp"`
	LSEOffset int
	// Scores is f32 [blocks, KVHeads, block], attention scores as eviction policies use them (H2O,
	// arXiv:2306.14048): to each slot its attention probability is added, summed over the call's
	// queries and the query heads of the KV head. On a GPU the order of additions is not fixed, so
	// the last bits may differ from run to run.
	Scores Opt[B] `operand:"attention scores"`
}

// AttendParams is one layer's attention. Q is [Tokens, QHeads, K dim]; query head h reads KV head
// h*KVHeads/QHeads. Plan, Work and Workspace come from PlanAttend for the same shape.
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
	// Int8Query also rounds each query row to int8, symmetrically, so that q·k are integer
	// products: faster and less exact. A backend may also round the softmax weights, to 1/32767 of
	// the largest of those that it multiplies at a time. For the storage types in Caps.Int8Query.
	Int8Query bool
}

// AttendScoresParams adds to Scores the attention probabilities of keys, exp(logit − log-sum-exp),
// summed over the call's queries and the query heads of each KV head, as Outputs.Scores does, but
// relative to given log-sum-exps. It is for sequences that lie in two caches or parts (see
// Mask.Part): Merge computes the log-sum-exp over all keys, and AttendScores then the scores of
// each part. LSE includes the sink logits; Mask.SinkLogits has no effect here. No rows are written.
//
// A query whose log-sum-exp is −∞, which saw no key, or +∞ (see MergeParams) adds nothing. A
// log-sum-exp of NaN makes the scores of all keys that the query sees NaN.
//
// Plan and Work come from PlanAttend for the same shape with Scores, such as those of an Attend
// with the same queries and keys; no workspace is needed.
type AttendScoresParams[B Buffer] struct {
	Cache  CacheView[B]
	Batch  Ragged[B]
	Q      Rows[B] // [Tokens, QHeads, K dim]
	QHeads int
	Scale  float32 // as for Attend
	Mask   Mask[B]
	// LSE is f32 [Tokens, QHeads], from element LSEOffset on. It may not be the buffer of Scores.
	LSE       B `operand:"log-sum-exp"`
	LSEOffset int
	Scores    B `operand:"attention scores"` // f32 [blocks, KVHeads, block]
	Plan      AttendPlan
	Work      Opt[B]
	Int8Query bool // as for Attend
}

// MergeParams combines Parts attention results over disjoint keys, as Attend writes them. In is
// [Parts, Tokens, Heads, Dim], LSE is f32 [Parts, Tokens, Heads]. Out is [Tokens, Heads, Dim],
// OutLSE f32 [Tokens, Heads]. In and Out are of activation types; In may also be f32. Out may not
// overlap In.
//
// A part with a log-sum-exp of −∞ is empty and does not count, whatever its rows hold. So does one
// of +∞, which other attention kernels write for a query that sees no key (as in vLLM's
// merge_attn_states). When all parts are empty the result is 0 and its log-sum-exp −∞. A
// log-sum-exp of NaN makes the row and its log-sum-exp NaN.
type MergeParams[B Buffer] struct {
	Parts, Tokens, Heads, Dim int
	In                        B
	LSE                       B `operand:"log-sum-exp"`
	Out                       Rows[B]
	OutLSE                    Opt[B] `operand:"out log-sum-exp"`
}

// GatherParams copies tokens [Begin, Begin+Len) of one sequence to dense memory. The sequence's
// block table is U32, from element TableOffset of Table on (unset: the sequence lies in block
// TableOffset). K and V are [KVHeads, Len, dim], of the planes' storage type (bit-exact) or f32;
// quantized planes are gathered as f32 only. Keys that are stored with Plane.Hadamard are
// transformed back when they are gathered as f32, and copied as they are stored when they are
// gathered as f16 or bf16. Of a latent cache K is whole keys, and V their first V dim elements.
type GatherParams[B Buffer] struct {
	Cache       CacheView[B]
	Table       Opt[B] `operand:"block table"`
	TableOffset int
	Begin, Len  int
	K, V        Opt[B]
	// CacheScores is the attention scores of the cache's slots (see Outputs); those of the tokens
	// are copied to Scores, f32 [KVHeads, Len] from element ScoresOffset on.
	CacheScores  Opt[B] `operand:"cache scores"`
	Scores       Opt[B]
	ScoresOffset int
}

// ClearScoresParams sets the attention scores of slots to 0, for all heads. Scores is f32 [Blocks,
// KVHeads, BlockSize], Slots is I64 [N]; −1 is skipped.
type ClearScoresParams[B Buffer] struct {
	Scores                     B `operand:"attention scores"`
	Blocks, KVHeads, BlockSize int
	Slots                      B
	N                          int
}

// MaxPosition is the last position that a query may have in Ragged.Views.
const MaxPosition = math.MaxInt32

// NoBlock as the source of a pair of blocks skips that pair, so that a list can have the same
// length in every step.
const NoBlock uint32 = math.MaxUint32

// CopyBlocksParams copies block Pairs[i][0] of From to block Pairs[i][1] of To: keys, values, their
// scales, and the attention scores (see Outputs) when FromScores and ToScores are set. To may be
// the same cache, or another one of the same types, heads, block size, dims, Hadamard and Latent. Pairs is
// U32 [N, 2]; a pair may be skipped with NoBlock. A destination may appear once and, within one
// cache, may not be the source of another pair. Scales of whole heads, those of 8-bit floats, are
// not copied: the caller makes sure that they are the same in both caches. With ScoresOnly only the
// attention scores are copied, and the types may differ.
type CopyBlocksParams[B Buffer] struct {
	From, To   CacheView[B]
	FromScores Opt[B]
	ToScores   Opt[B]
	Pairs      B
	N          int
	ScoresOnly bool
}

// MoveSlotsParams copies slot Pairs[i][0] to slot Pairs[i][1]. Pairs is I64 [N, 2]. The result is
// as if the pairs were done in order, so a list that is sorted by destination closes gaps in place.
// Scales are copied, too, and attention scores when Scores is set. Keys of Int4Channel are
// ErrUnsupported: the slots of a block share scales.
type MoveSlotsParams[B Buffer] struct {
	Cache  CacheView[B]
	Scores Opt[B] `operand:"attention scores"`
	Pairs  B
	N      int
}

// ConvertBlocksParams stores block Pairs[i][0] of From as block Pairs[i][1] of To, which has the
// same heads, block size, dims and Latent, and other storage types. It quantizes blocks of older tokens,
// and restores blocks that are to be written again. Pairs is U32 [N, 2]; a pair may be skipped with
// NoBlock, and a destination may appear once. One cache is of an activation type in both planes,
// the other of quantized types that Caps.Formats lists with it. Keys are transformed when only one
// of the two has Hadamard. Values that are not finite are handled as in AppendParams; codes that are worth
// more than the largest number of the activation type are stored as that. The attention
// scores (see Outputs) are copied when FromScores and ToScores are set, which must be two buffers.
type ConvertBlocksParams[B Buffer] struct {
	From, To   CacheView[B]
	FromScores Opt[B]
	ToScores   Opt[B]
	Pairs      B
	N          int
	Saturate   bool
}

// RotateParams rotates the keys at Slots (I64 [N]; −1 is skipped, any other slot may appear once)
// by Deltas (I32 [N]) positions, forward or back, by less than Rotary.Positions; of a latent cache the
// elements after the latent. A rotated value ends at the largest number of the keys' type, of quantized
// keys at the largest float32. Those are quantized again, each value within half a step of the rotated
// one; keys of Int4Channel are ErrUnsupported. With Hadamard, keys are turned back as sums of float32:
// those beyond 2^127 / dim may come out infinite or NaN, here and from Gather and ConvertBlocks.
type RotateParams[B Buffer] struct {
	Cache         CacheView[B]
	Slots, Deltas B
	N             int
	Rotary        RotaryTable[B]
}
