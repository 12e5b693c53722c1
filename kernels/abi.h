/*
 * What the host and the kernels agree on, for CUDA and Metal alike: for every
 * kernel the order of its buffers and one plain struct of scalars. A kernel takes
 * its buffers in the order of the enum (CUDA: pointer parameters; Metal: buffer
 * indices) and then its struct by value (Metal: the index behind the last buffer). A
 * buffer that a call does not have is a null pointer, in Metal an argument that a
 * function constant leaves out. Where a call starts inside a buffer, the host has moved
 * the pointer.
 *
 * This header is read by C++, CUDA and Metal compilers and by the generator of
 * backend/internal/abi, which knows only what stands here: enums without values,
 * #define of a number, structs of uint32_t, int64_t, uint64_t and float. A struct's first
 * field is its own size, fields lie on their natural alignment without gaps, and
 * the size is a multiple of 8. Strides count elements, not bytes.
 */
#ifndef FKV_ABI_H
#define FKV_ABI_H

#ifndef __METAL_VERSION__
#include <stdint.h>
#endif

/* Changes when a struct, an enum or the meaning of one does. */
#define FKV_ABI_VERSION 9

/*
 * The function constants of the Metal kernels, all of them bool: what a call has, so
 * that what it has not costs nothing. A kernel takes those that it names. PAGED: block_size
 * is a power of two, and a table says where blocks lie. WIDE: every row that moves is
 * aligned to 16 bytes and made of whole runs. CUDA kernels look at their pointers and
 * arguments instead.
 */
enum { FKV_PAGED, FKV_WIDE, FKV_WITH_ROPE, FKV_WITH_QUERIES, FKV_WITH_TABLE, FKV_WITH_OFFSETS,
       FKV_WITH_ALIBI, FKV_WITH_SINKS, FKV_WITH_SOFTCAP, FKV_WITH_LSE, FKV_WITH_FINAL_LSE,
       FKV_WITH_PARTIALS, FKV_WITH_VIEWS, FKV_WITH_TREE, FKV_CONSTANTS };

/*
 * A plane is stored as elements of the type in the kernel's name, or, where that is "quant",
 * as an argument says, a word of storage.h, which the kernel looks up when it runs. Scales lie as
 * backend.DType.Scales says. STATUS collects FKV_KEYS and FKV_VALUES where a value
 * that was to be quantized is not finite; its group then reads as NaN.
 */
#define FKV_KEYS 1
#define FKV_VALUES 2

/*
 * append: row i of K and V [tokens, kv_heads, dim] goes to slot slots[i] of the
 * caches [blocks, kv_heads, block_size, dim], converted to their type; -1 and
 * slots outside the cache are skipped. With FKV_ROPE keys are rotated on their
 * way, and all rows of Q [tokens, q_heads, k_dim] in place.
 */
enum { FKV_APPEND_K, FKV_APPEND_V, FKV_APPEND_Q, FKV_APPEND_SLOTS, FKV_APPEND_POSITIONS,
       FKV_APPEND_ROPE, FKV_APPEND_KCACHE, FKV_APPEND_VCACHE, FKV_APPEND_BUFFERS };

#define FKV_ROPE 1        /* rotate; POSITIONS [tokens] and ROPE [rope_positions, rope_dims/2, 2] are there */
#define FKV_INTERLEAVED 2 /* pairs are (2i, 2i+1), not (i, i + rope_dims/2) */
#define FKV_LATENT 16     /* V is the first elements of keys, K those behind them, both in KCACHE; Q is as long as keys, and its last k_dim rotate */

struct fkv_append_args {
    uint32_t size;
    uint32_t flags;
    int64_t k_stride, v_stride, q_stride; /* from one token's row to the next */
    int64_t slots;                        /* blocks * block_size */
    uint32_t tokens, kv_heads, q_heads;   /* q_heads 0: no Q */
    uint32_t k_dim, v_dim, block_size;
    uint32_t rope_dims, rope_positions;
    float magnitude;                      /* factor on rotated dims */
    uint32_t pad;
};

/*
 * append_quant: append to caches of quantized types, or of floats whose keys are turned. With
 * FKV_HADAMARD keys, and all rows of Q, are turned by the Walsh-Hadamard matrix after their
 * rotation. The scales of floats are not read. append_quant_long, of a latent cache, has keys as FKV_LATENT says,
 * of 512 elements and up to 256 behind them.
 */
enum { FKV_APPEND_QUANT_K, FKV_APPEND_QUANT_V, FKV_APPEND_QUANT_Q, FKV_APPEND_QUANT_SLOTS, FKV_APPEND_QUANT_POSITIONS,
       FKV_APPEND_QUANT_ROPE, FKV_APPEND_QUANT_KCACHE, FKV_APPEND_QUANT_VCACHE, FKV_APPEND_QUANT_KSCALES,
       FKV_APPEND_QUANT_VSCALES, FKV_APPEND_QUANT_STATUS, FKV_APPEND_QUANT_BUFFERS };

#define FKV_HADAMARD 4 /* keys are stored turned */
#define FKV_SATURATE 8 /* values that are not finite become finite ones */

struct fkv_append_quant_args {
    uint32_t size;
    uint32_t flags;
    int64_t k_stride, v_stride, q_stride; /* from one token's row to the next */
    int64_t slots;                        /* blocks * block_size */
    uint32_t tokens, kv_heads, q_heads;   /* q_heads 0: no Q */
    uint32_t k_dim, v_dim, block_size;
    uint32_t rope_dims, rope_positions;
    float magnitude;                      /* factor on rotated dims */
    uint32_t k_storage, v_storage;        /* row by row: not FKV_BY_CHANNEL */
    uint32_t pad;
};

/* gather: tokens [begin, begin+len) of one plane of one sequence as [kv_heads, len, dim], of rows the first dim elements. */
enum { FKV_GATHER_CACHE, FKV_GATHER_TABLE, FKV_GATHER_OUT, FKV_GATHER_BUFFERS };

struct fkv_gather_args {
    uint32_t size;
    uint32_t block; /* without TABLE: the block that holds the sequence */
    int64_t begin, len;
    uint32_t blocks, kv_heads, block_size, dim;
    uint32_t row; /* elements of a row of the plane */
    uint32_t pad;
};

/* gather_quant: gather, as f32, of a plane that is quantized or turned; with FKV_HADAMARD rows are turned back. */
enum { FKV_GATHER_QUANT_CACHE, FKV_GATHER_QUANT_SCALES, FKV_GATHER_QUANT_TABLE, FKV_GATHER_QUANT_OUT, FKV_GATHER_QUANT_BUFFERS };

struct fkv_gather_quant_args {
    uint32_t size;
    uint32_t block; /* without TABLE: the block that holds the sequence */
    int64_t begin, len;
    uint32_t blocks, kv_heads, block_size, dim;
    uint32_t row; /* elements of a row of the plane */
    uint32_t storage, flags;
    uint32_t pad;
};

/*
 * pack_blocks, unpack_blocks: block pairs[i][0] of one plane becomes block pairs[i][1] of
 * another, which is quantized, or the first of which is. With FKV_HADAMARD rows are
 * turned on the way. of is FKV_KEYS or FKV_VALUES. pack_blocks_long and unpack_blocks_long are for rows of
 * more than 256 elements, whose channels have no words and which are not turned.
 */
enum { FKV_PACK_BLOCKS_FROM, FKV_PACK_BLOCKS_TO, FKV_PACK_BLOCKS_SCALES, FKV_PACK_BLOCKS_PAIRS,
       FKV_PACK_BLOCKS_STATUS, FKV_PACK_BLOCKS_BUFFERS };

struct fkv_pack_blocks_args {
    uint32_t size;
    uint32_t pairs, from_blocks, to_blocks;
    uint32_t kv_heads, block_size, dim;
    uint32_t storage, flags, of;
};

enum { FKV_UNPACK_BLOCKS_FROM, FKV_UNPACK_BLOCKS_SCALES, FKV_UNPACK_BLOCKS_TO, FKV_UNPACK_BLOCKS_PAIRS,
       FKV_UNPACK_BLOCKS_BUFFERS };

struct fkv_unpack_blocks_args {
    uint32_t size;
    uint32_t pairs, from_blocks, to_blocks;
    uint32_t kv_heads, block_size, dim;
    uint32_t storage, flags;
    uint32_t pad;
};

/*
 * copy_blocks: block pairs[i][0] of both planes K and V to block pairs[i][1] of TO_K and TO_V, which may be
 * K and V. copy_blocks_narrow is the same for planes of multiples of 4 bytes, of which V may be absent: scales,
 * attention mass, and rows that are no multiple of 16.
 */
enum { FKV_COPY_BLOCKS_K, FKV_COPY_BLOCKS_V, FKV_COPY_BLOCKS_TO_K, FKV_COPY_BLOCKS_TO_V, FKV_COPY_BLOCKS_PAIRS,
       FKV_COPY_BLOCKS_BUFFERS };

struct fkv_copy_blocks_args {
    uint32_t size;
    uint32_t pairs;
    int64_t k_bytes, v_bytes; /* of one block, multiples of 16 (narrow: 4); 0: no plane */
    uint32_t from_blocks, to_blocks;
};

/*
 * stage_blocks: blocks list[i] of all planes, one behind another as host memory holds them, are a list of bytes, of which those
 * from begin on, as many as bytes, are copied to STAGING, or with FKV_UNSTAGE from there. PLANES [planes, 3]: the address of a
 * plane, the bytes of a block of it, and those of a block of all planes that come before. Blocks outside of the planes are skipped.
 * CUDA only: what Metal's devices have is the host's memory, too.
 */
enum { FKV_STAGE_BLOCKS_PLANES, FKV_STAGE_BLOCKS_LIST, FKV_STAGE_BLOCKS_STAGING, FKV_STAGE_BLOCKS_BUFFERS };

#define FKV_UNSTAGE 32 /* from STAGING to the planes */

struct fkv_stage_blocks_args {
    uint32_t size;
    uint32_t flags;
    int64_t block_bytes;             /* of a block of all planes */
    int64_t begin, bytes;            /* begin is in the first block */
    uint32_t planes, listed, blocks; /* planes * listed fits 32 bits */
    uint32_t pad;
};

/*
 * move_slots: slot pairs[i][0] to slot pairs[i][1] of both planes, one pair after another.
 * move_slots_narrow is to it as copy_blocks_narrow to copy_blocks.
 */
enum { FKV_MOVE_SLOTS_K, FKV_MOVE_SLOTS_V, FKV_MOVE_SLOTS_PAIRS, FKV_MOVE_SLOTS_BUFFERS };

struct fkv_move_slots_args {
    uint32_t size;
    uint32_t kv_heads;
    int64_t pairs, slots;
    uint32_t block_size;
    uint32_t k_bytes, v_bytes; /* of one row of one head, multiples of 16 (narrow: 4); 0: no plane */
    uint32_t pad;
};

/*
 * clear_mass: the attention mass [blocks, kv_heads, block_size] of slots[i] becomes 0 for all heads; -1
 * and slots outside the cache are skipped.
 */
enum { FKV_CLEAR_MASS_MASS, FKV_CLEAR_MASS_SLOTS, FKV_CLEAR_MASS_BUFFERS };

struct fkv_clear_mass_args {
    uint32_t size;
    uint32_t kv_heads;
    int64_t slots; /* blocks * block_size */
    uint32_t n, block_size;
};

/* rotate: turns the keys at slots[i] by deltas[i] positions. */
enum { FKV_ROTATE_K, FKV_ROTATE_SLOTS, FKV_ROTATE_DELTAS, FKV_ROTATE_ROPE, FKV_ROTATE_BUFFERS };

struct fkv_rotate_args {
    uint32_t size;
    uint32_t flags; /* FKV_INTERLEAVED */
    int64_t slots;
    uint32_t n, kv_heads, k_dim, block_size;
    uint32_t rope_dims, rope_positions;
    uint32_t rope_at; /* the element of a key from which on it rotates */
    uint32_t pad;
};

/*
 * rotate_quant: rotate of keys that are quantized, row by row, or turned; with FKV_HADAMARD turned back meanwhile.
 * rotate_quant_long: of keys of a latent cache, whose elements from 512 on rotate.
 */
enum { FKV_ROTATE_QUANT_K, FKV_ROTATE_QUANT_SCALES, FKV_ROTATE_QUANT_SLOTS, FKV_ROTATE_QUANT_DELTAS, FKV_ROTATE_QUANT_ROPE,
       FKV_ROTATE_QUANT_BUFFERS };

struct fkv_rotate_quant_args {
    uint32_t size;
    uint32_t flags; /* FKV_INTERLEAVED, FKV_HADAMARD */
    int64_t slots;
    uint32_t n, kv_heads, k_dim, block_size;
    uint32_t rope_dims, rope_positions;
    uint32_t storage;
    uint32_t pad;
};

/*
 * fill: bytes bytes from DST on are set to the pattern, repeated every elem bytes (1,
 * 2, 4 or 8); DST is aligned to elem. Of the last byte only the bits of last_mask
 * change (0xff: all).
 */
enum { FKV_FILL_DST, FKV_FILL_BUFFERS };

struct fkv_fill_args {
    uint32_t size;
    uint32_t last_mask;
    uint64_t pattern;
    int64_t bytes;
    uint32_t elem;
    uint32_t pad;
};

/* copy_bits: the bits of mask of one byte. */
enum { FKV_COPY_BITS_DST, FKV_COPY_BITS_SRC, FKV_COPY_BITS_BUFFERS };

struct fkv_copy_bits_args {
    uint32_t size;
    uint32_t mask;
};

/*
 * copy: bytes bytes from SRC to DST, which do not overlap. Metal only: CUDA's driver
 * copies any bytes by itself.
 */
enum { FKV_COPY_DST, FKV_COPY_SRC, FKV_COPY_BUFFERS };

struct fkv_copy_args {
    uint32_t size;
    uint32_t pad;
    int64_t bytes;
};

/*
 * merge: parts attention results IN [parts, tokens, heads, dim] with LSE [parts,
 * tokens, heads] (natural logarithms) become OUT [tokens, heads, dim]. A part of
 * log-sum-exp -inf counts for nothing, whatever its row holds.
 */
enum { FKV_MERGE_IN, FKV_MERGE_LSE, FKV_MERGE_OUT, FKV_MERGE_OUT_LSE, FKV_MERGE_BUFFERS };

struct fkv_merge_args {
    uint32_t size;
    uint32_t parts;
    int64_t out_stride;
    uint32_t tokens, heads, dim;
    uint32_t pad;
};

/*
 * probe_mma, probe_read: what the device can do at most. The first runs iterations
 * rounds of matrix products in registers, 8 a warp and round, and writes one f32 that
 * means nothing. The second reads bytes bytes, a multiple of 16, and adds the sum of
 * their 32-bit words to OUT.
 */
enum { FKV_PROBE_MMA_OUT, FKV_PROBE_MMA_BUFFERS };

struct fkv_probe_mma_args {
    uint32_t size;
    uint32_t iterations;
};

enum { FKV_PROBE_READ_SRC, FKV_PROBE_READ_OUT, FKV_PROBE_READ_BUFFERS };

struct fkv_probe_read_args {
    uint32_t size;
    uint32_t pad;
    int64_t bytes;
};

/*
 * attend: every attention kernel takes these. The rows of a sequence are its
 * queries times the heads of one group: row r is query r/group and head
 * kv_head*group + r%group, group = q_heads/kv_heads. A block of the grid is item
 * blockIdx.x of a launch and KV head blockIdx.y. VIEWS is [tokens, 2], TREE [tokens, tree_words]: see
 * backend.Ragged, and backend.Mask for what a query sees.
 */
enum { FKV_ATTEND_Q, FKV_ATTEND_K, FKV_ATTEND_V, FKV_ATTEND_TABLE, FKV_ATTEND_CONTEXT_LENS,
       FKV_ATTEND_QUERY_OFFSETS, FKV_ATTEND_VIEWS, FKV_ATTEND_TREE, FKV_ATTEND_WORK, FKV_ATTEND_ALIBI, FKV_ATTEND_SINKS,
       FKV_ATTEND_OUT, FKV_ATTEND_LSE, FKV_ATTEND_PARTIAL, FKV_ATTEND_PARTIAL_LSE,
       FKV_ATTEND_FINAL_LSE, FKV_ATTEND_MASS, FKV_ATTEND_KSCALES, FKV_ATTEND_VSCALES, FKV_ATTEND_BUFFERS };

#define FKV_NONCAUSAL 1 /* every query sees its sequence's whole context */
#define FKV_OLDER 2     /* of what it would see, a query sees keys before its edge, else those from it on */

struct fkv_attend_args {
    uint32_t size;
    uint32_t flags;
    int64_t q_stride, out_stride;  /* from one token's row to the next */
    int64_t partial_rows;          /* rows [v_dim] of PARTIAL, elements of PARTIAL_LSE */
    uint32_t first, items;         /* items of WORK that this launch runs */
    uint32_t seqs, tokens;
    uint32_t q_heads, kv_heads, k_dim, v_dim;
    uint32_t blocks, block_size;   /* where table_stride is more than 1, block_size is a power of two */
    uint32_t table_stride;         /* contiguous: 1 with a table */
    uint32_t window, sink_tokens;  /* window 0: none */
    float scale;
    float softcap;                 /* 0: none */
    uint32_t k_storage, v_storage; /* in kernels of quantized caches, which have scales, too */
    uint32_t shared_at, shared_rows; /* the word of WORK where shared rows begin, and their number */
    uint32_t recent; /* the edge of a query at p is max(0, p + 1 - recent) in whole blocks; 0: there is none */
    uint32_t chunk, tree_words; /* chunk 0: none */
};

/*
 * One item of WORK, as eight words: rows [row, row+rows) of sequence seq over the
 * keys at positions [key, key_end). An item of several parts writes row r, which is
 * relative to the item, to partial row (base + part*rows + r)*kv_heads + kv_head;
 * one of a single part writes its output. The work of a merge launch names the
 * parts to be merged. Kernels trust no field: what does not fit the call is skipped.
 */
struct fkv_attend_item {
    uint32_t seq, row, rows;
    uint32_t key, key_end;
    uint32_t base, part, parts;
};

#define FKV_ITEM_WORDS 8

/*
 * An item whose seq is FKV_MANY_SEQS has rows of several sequences, whose tables are the
 * same over its keys, all of which are before the queries: shared rows [row, row+rows) of
 * WORK, each four words. It is a part of all of them, number part of several, and walks
 * the keys by the first one's table. What a shared row gets goes to partial row
 * (partial + part*step)*kv_heads + kv_head, where that of its sequence's own items is.
 */
#define FKV_MANY_SEQS 0xffffffff

struct fkv_attend_row {
    uint32_t seq, row;
    uint32_t partial, step;
};

#define FKV_ROW_WORDS 4
#define FKV_WORK_HEADER 24 /* words before the first item; the host's own */

/* The keys that CUDA kernels move at once, where they are aligned to as many in their block. */
#define FKV_LEAF_KEYS 16

/* The most rows an item may have, by the kind of kernel that runs it. */
#define FKV_VECTOR_ROWS 4
#define FKV_DECODE_ROWS 16
#define FKV_PREFILL_ROWS 64
#define FKV_WIDE_ROWS 128
#define FKV_WIDE_LATENT_ROWS 64 /* of kind wide, over a latent cache */

#endif
