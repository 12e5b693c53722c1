// Code generated from kernels/abi.h by backend/internal/abi/gen. DO NOT EDIT.

package abi

import "unsafe"

// Changes when a struct, an enum or the meaning of one does.
const (
	Version = 9
)

// The function constants of the Metal kernels, all of them bool: what a call has, so
// that what it has not costs nothing. A kernel takes those that it names. PAGED: block_size
// is a power of two, and a table says where blocks lie. WIDE: every row that moves is
// aligned to 16 bytes and made of whole runs. CUDA kernels look at their pointers and
// arguments instead.
const (
	Paged = iota
	Wide
	WithRoPE
	WithQueries
	WithTable
	WithOffsets
	WithALiBi
	WithSinks
	WithSoftcap
	WithLSE
	WithFinalLSE
	WithPartials
	WithViews
	WithTree
	Constants
)

// A plane is stored as elements of the type in the kernel's name, or, where that is "quant",
// as an argument says, a word of storage.h, which the kernel looks up when it runs. Scales lie as
// backend.DType.Scales says. STATUS collects FKV_KEYS and FKV_VALUES where a value
// that was to be quantized is not finite; its group then reads as NaN.
const (
	Keys   = 1
	Values = 2
)

// append: row i of K and V [tokens, kv_heads, dim] goes to slot slots[i] of the
// caches [blocks, kv_heads, block_size, dim], converted to their type; -1 and
// slots outside the cache are skipped. With FKV_ROPE keys are rotated on their
// way, and all rows of Q [tokens, q_heads, k_dim] in place.
const (
	AppendK = iota
	AppendV
	AppendQ
	AppendSlots
	AppendPositions
	AppendRoPE
	AppendKCache
	AppendVCache
	AppendBuffers
)

const (
	RoPE        = 1  // rotate; POSITIONS [tokens] and ROPE [rope_positions, rope_dims/2, 2] are there
	Interleaved = 2  // pairs are (2i, 2i+1), not (i, i + rope_dims/2)
	Latent      = 16 // V is the first elements of keys, K those behind them, both in KCACHE; Q is as long as keys, and its last k_dim rotate
)

// AppendArgs is struct fkv_append_args.
type AppendArgs struct {
	Size                      uint32
	Flags                     uint32
	KStride, VStride, QStride int64  // from one token's row to the next
	Slots                     int64  // blocks * block_size
	Tokens, KVHeads, QHeads   uint32 // q_heads 0: no Q
	KDim, VDim, BlockSize     uint32
	RoPEDims, RoPEPositions   uint32
	Magnitude                 float32 // factor on rotated dims
	_                         uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *AppendArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// append_quant: append to caches of quantized types, or of floats whose keys are turned. With
// FKV_HADAMARD keys, and all rows of Q, are turned by the Walsh-Hadamard matrix after their
// rotation. The scales of floats are not read. append_quant_long, of a latent cache, has keys as FKV_LATENT says,
// of 512 elements and up to 256 behind them.
const (
	AppendQuantK = iota
	AppendQuantV
	AppendQuantQ
	AppendQuantSlots
	AppendQuantPositions
	AppendQuantRoPE
	AppendQuantKCache
	AppendQuantVCache
	AppendQuantKscales
	AppendQuantVscales
	AppendQuantStatus
	AppendQuantBuffers
)

const (
	Hadamard = 4 // keys are stored turned
	Saturate = 8 // values that are not finite become finite ones
)

// AppendQuantArgs is struct fkv_append_quant_args.
type AppendQuantArgs struct {
	Size                      uint32
	Flags                     uint32
	KStride, VStride, QStride int64  // from one token's row to the next
	Slots                     int64  // blocks * block_size
	Tokens, KVHeads, QHeads   uint32 // q_heads 0: no Q
	KDim, VDim, BlockSize     uint32
	RoPEDims, RoPEPositions   uint32
	Magnitude                 float32 // factor on rotated dims
	KStorage, VStorage        uint32  // row by row: not FKV_BY_CHANNEL
	_                         uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *AppendQuantArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// gather: tokens [begin, begin+len) of one plane of one sequence as [kv_heads, len, dim], of rows the first dim elements.
const (
	GatherCache = iota
	GatherTable
	GatherOut
	GatherBuffers
)

// GatherArgs is struct fkv_gather_args.
type GatherArgs struct {
	Size                            uint32
	Block                           uint32 // without TABLE: the block that holds the sequence
	Begin, Len                      int64
	Blocks, KVHeads, BlockSize, Dim uint32
	Row                             uint32 // elements of a row of the plane
	_                               uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *GatherArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// gather_quant: gather, as f32, of a plane that is quantized or turned; with FKV_HADAMARD rows are turned back.
const (
	GatherQuantCache = iota
	GatherQuantScales
	GatherQuantTable
	GatherQuantOut
	GatherQuantBuffers
)

// GatherQuantArgs is struct fkv_gather_quant_args.
type GatherQuantArgs struct {
	Size                            uint32
	Block                           uint32 // without TABLE: the block that holds the sequence
	Begin, Len                      int64
	Blocks, KVHeads, BlockSize, Dim uint32
	Row                             uint32 // elements of a row of the plane
	Storage, Flags                  uint32
	_                               uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *GatherQuantArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// pack_blocks, unpack_blocks: block pairs[i][0] of one plane becomes block pairs[i][1] of
// another, which is quantized, or the first of which is. With FKV_HADAMARD rows are
// turned on the way. of is FKV_KEYS or FKV_VALUES. pack_blocks_long and unpack_blocks_long are for rows of
// more than 256 elements, whose channels have no words and which are not turned.
const (
	PackBlocksFrom = iota
	PackBlocksTo
	PackBlocksScales
	PackBlocksPairs
	PackBlocksStatus
	PackBlocksBuffers
)

// PackBlocksArgs is struct fkv_pack_blocks_args.
type PackBlocksArgs struct {
	Size                        uint32
	Pairs, FromBlocks, ToBlocks uint32
	KVHeads, BlockSize, Dim     uint32
	Storage, Flags, Of          uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *PackBlocksArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

const (
	UnpackBlocksFrom = iota
	UnpackBlocksScales
	UnpackBlocksTo
	UnpackBlocksPairs
	UnpackBlocksBuffers
)

// UnpackBlocksArgs is struct fkv_unpack_blocks_args.
type UnpackBlocksArgs struct {
	Size                        uint32
	Pairs, FromBlocks, ToBlocks uint32
	KVHeads, BlockSize, Dim     uint32
	Storage, Flags              uint32
	_                           uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *UnpackBlocksArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// copy_blocks: block pairs[i][0] of both planes K and V to block pairs[i][1] of TO_K and TO_V, which may be
// K and V. copy_blocks_narrow is the same for planes of multiples of 4 bytes, of which V may be absent: scales,
// attention mass, and rows that are no multiple of 16.
const (
	CopyBlocksK = iota
	CopyBlocksV
	CopyBlocksToK
	CopyBlocksToV
	CopyBlocksPairs
	CopyBlocksBuffers
)

// CopyBlocksArgs is struct fkv_copy_blocks_args.
type CopyBlocksArgs struct {
	Size                 uint32
	Pairs                uint32
	KBytes, VBytes       int64 // of one block, multiples of 16 (narrow: 4); 0: no plane
	FromBlocks, ToBlocks uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *CopyBlocksArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// stage_blocks: blocks list[i] of all planes, one behind another as host memory holds them, are a list of bytes, of which those
// from begin on, as many as bytes, are copied to STAGING, or with FKV_UNSTAGE from there. PLANES [planes, 3]: the address of a
// plane, the bytes of a block of it, and those of a block of all planes that come before. Blocks outside of the planes are skipped.
// CUDA only: what Metal's devices have is the host's memory, too.
const (
	StageBlocksPlanes = iota
	StageBlocksList
	StageBlocksStaging
	StageBlocksBuffers
)

const (
	Unstage = 32 // from STAGING to the planes
)

// StageBlocksArgs is struct fkv_stage_blocks_args.
type StageBlocksArgs struct {
	Size                   uint32
	Flags                  uint32
	BlockBytes             int64  // of a block of all planes
	Begin, Bytes           int64  // begin is in the first block
	Planes, Listed, Blocks uint32 // planes * listed fits 32 bits
	_                      uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *StageBlocksArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// move_slots: slot pairs[i][0] to slot pairs[i][1] of both planes, one pair after another.
// move_slots_narrow is to it as copy_blocks_narrow to copy_blocks.
const (
	MoveSlotsK = iota
	MoveSlotsV
	MoveSlotsPairs
	MoveSlotsBuffers
)

// MoveSlotsArgs is struct fkv_move_slots_args.
type MoveSlotsArgs struct {
	Size           uint32
	KVHeads        uint32
	Pairs, Slots   int64
	BlockSize      uint32
	KBytes, VBytes uint32 // of one row of one head, multiples of 16 (narrow: 4); 0: no plane
	_              uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *MoveSlotsArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// clear_mass: the attention mass [blocks, kv_heads, block_size] of slots[i] becomes 0 for all heads; -1
// and slots outside the cache are skipped.
const (
	ClearMassMass = iota
	ClearMassSlots
	ClearMassBuffers
)

// ClearMassArgs is struct fkv_clear_mass_args.
type ClearMassArgs struct {
	Size         uint32
	KVHeads      uint32
	Slots        int64 // blocks * block_size
	N, BlockSize uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *ClearMassArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// rotate: turns the keys at slots[i] by deltas[i] positions.
const (
	RotateK = iota
	RotateSlots
	RotateDeltas
	RotateRoPE
	RotateBuffers
)

// RotateArgs is struct fkv_rotate_args.
type RotateArgs struct {
	Size                        uint32
	Flags                       uint32 // FKV_INTERLEAVED
	Slots                       int64
	N, KVHeads, KDim, BlockSize uint32
	RoPEDims, RoPEPositions     uint32
	RoPEAt                      uint32 // the element of a key from which on it rotates
	_                           uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *RotateArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// rotate_quant: rotate of keys that are quantized, row by row, or turned; with FKV_HADAMARD turned back meanwhile.
// rotate_quant_long: of keys of a latent cache, whose elements from 512 on rotate.
const (
	RotateQuantK = iota
	RotateQuantScales
	RotateQuantSlots
	RotateQuantDeltas
	RotateQuantRoPE
	RotateQuantBuffers
)

// RotateQuantArgs is struct fkv_rotate_quant_args.
type RotateQuantArgs struct {
	Size                        uint32
	Flags                       uint32 // FKV_INTERLEAVED, FKV_HADAMARD
	Slots                       int64
	N, KVHeads, KDim, BlockSize uint32
	RoPEDims, RoPEPositions     uint32
	Storage                     uint32
	_                           uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *RotateQuantArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// fill: bytes bytes from DST on are set to the pattern, repeated every elem bytes (1,
// 2, 4 or 8); DST is aligned to elem. Of the last byte only the bits of last_mask
// change (0xff: all).
const (
	FillDst = iota
	FillBuffers
)

// FillArgs is struct fkv_fill_args.
type FillArgs struct {
	Size     uint32
	LastMask uint32
	Pattern  uint64
	Bytes    int64
	Elem     uint32
	_        uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *FillArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// copy_bits: the bits of mask of one byte.
const (
	CopyBitsDst = iota
	CopyBitsSrc
	CopyBitsBuffers
)

// CopyBitsArgs is struct fkv_copy_bits_args.
type CopyBitsArgs struct {
	Size uint32
	Mask uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *CopyBitsArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// copy: bytes bytes from SRC to DST, which do not overlap. Metal only: CUDA's driver
// copies any bytes by itself.
const (
	CopyDst = iota
	CopySrc
	CopyBuffers
)

// CopyArgs is struct fkv_copy_args.
type CopyArgs struct {
	Size  uint32
	_     uint32
	Bytes int64
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *CopyArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// merge: parts attention results IN [parts, tokens, heads, dim] with LSE [parts,
// tokens, heads] (natural logarithms) become OUT [tokens, heads, dim]. A part of
// log-sum-exp -inf counts for nothing, whatever its row holds.
const (
	MergeIn = iota
	MergeLSE
	MergeOut
	MergeOutLSE
	MergeBuffers
)

// MergeArgs is struct fkv_merge_args.
type MergeArgs struct {
	Size               uint32
	Parts              uint32
	OutStride          int64
	Tokens, Heads, Dim uint32
	_                  uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *MergeArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// probe_mma, probe_read: what the device can do at most. The first runs iterations
// rounds of matrix products in registers, 8 a warp and round, and writes one f32 that
// means nothing. The second reads bytes bytes, a multiple of 16, and adds the sum of
// their 32-bit words to OUT.
const (
	ProbeMmaOut = iota
	ProbeMmaBuffers
)

// ProbeMmaArgs is struct fkv_probe_mma_args.
type ProbeMmaArgs struct {
	Size       uint32
	Iterations uint32
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *ProbeMmaArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

const (
	ProbeReadSrc = iota
	ProbeReadOut
	ProbeReadBuffers
)

// ProbeReadArgs is struct fkv_probe_read_args.
type ProbeReadArgs struct {
	Size  uint32
	_     uint32
	Bytes int64
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *ProbeReadArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// attend: every attention kernel takes these. The rows of a sequence are its
// queries times the heads of one group: row r is query r/group and head
// kv_head*group + r%group, group = q_heads/kv_heads. A block of the grid is item
// blockIdx.x of a launch and KV head blockIdx.y. VIEWS is [tokens, 2], TREE [tokens, tree_words]: see
// backend.Ragged, and backend.Mask for what a query sees.
const (
	AttendQ = iota
	AttendK
	AttendV
	AttendTable
	AttendContextLens
	AttendQueryOffsets
	AttendViews
	AttendTree
	AttendWork
	AttendALiBi
	AttendSinks
	AttendOut
	AttendLSE
	AttendPartial
	AttendPartialLSE
	AttendFinalLSE
	AttendMass
	AttendKscales
	AttendVscales
	AttendBuffers
)

const (
	Noncausal = 1 // every query sees its sequence's whole context
	Older     = 2 // of what it would see, a query sees keys before its edge, else those from it on
)

// AttendArgs is struct fkv_attend_args.
type AttendArgs struct {
	Size                        uint32
	Flags                       uint32
	QStride, OutStride          int64  // from one token's row to the next
	PartialRows                 int64  // rows [v_dim] of PARTIAL, elements of PARTIAL_LSE
	First, Items                uint32 // items of WORK that this launch runs
	Seqs, Tokens                uint32
	QHeads, KVHeads, KDim, VDim uint32
	Blocks, BlockSize           uint32 // where table_stride is more than 1, block_size is a power of two
	TableStride                 uint32 // contiguous: 1 with a table
	Window, SinkTokens          uint32 // window 0: none
	Scale                       float32
	Softcap                     float32 // 0: none
	KStorage, VStorage          uint32  // in kernels of quantized caches, which have scales, too
	SharedAt, SharedRows        uint32  // the word of WORK where shared rows begin, and their number
	Recent                      uint32  // the edge of a query at p is max(0, p + 1 - recent) in whole blocks; 0: there is none
	Chunk, TreeWords            uint32  // chunk 0: none
}

// Encode sets Size and returns the struct as the kernel reads it. The bytes are the
// struct's own memory.
func (a *AttendArgs) Encode() []byte {
	a.Size = uint32(unsafe.Sizeof(*a))
	return unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
}

// One item of WORK, as eight words: rows [row, row+rows) of sequence seq over the
// keys at positions [key, key_end). An item of several parts writes row r, which is
// relative to the item, to partial row (base + part*rows + r)*kv_heads + kv_head;
// one of a single part writes its output. The work of a merge launch names the
// parts to be merged. Kernels trust no field: what does not fit the call is skipped.
type AttendItem struct {
	Seq, Row, Rows    uint32
	Key, KeyEnd       uint32
	Base, Part, Parts uint32
}

const (
	ItemWords = 8
)

// An item whose seq is FKV_MANY_SEQS has rows of several sequences, whose tables are the
// same over its keys, all of which are before the queries: shared rows [row, row+rows) of
// WORK, each four words. It is a part of all of them, number part of several, and walks
// the keys by the first one's table. What a shared row gets goes to partial row
// (partial + part*step)*kv_heads + kv_head, where that of its sequence's own items is.
const (
	ManySeqs = 0xffffffff
)

// AttendRow is struct fkv_attend_row.
type AttendRow struct {
	Seq, Row      uint32
	Partial, Step uint32
}

const (
	RowWords   = 4
	WorkHeader = 24 // words before the first item; the host's own
)

// The keys that CUDA kernels move at once, where they are aligned to as many in their block.
const (
	LeafKeys = 16
)

// The most rows an item may have, by the kind of kernel that runs it.
const (
	VectorRows     = 4
	DecodeRows     = 16
	PrefillRows    = 64
	WideRows       = 128
	WideLatentRows = 64 // of kind wide, over a latent cache
)

// What no kernel exceeds.
const (
	MaxBuffers = 19  // buffers of a kernel
	MaxArgs    = 120 // bytes of a kernel's scalars
)
