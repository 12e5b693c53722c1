// Pack: whole blocks of a plane of the activation type become blocks of a quantized one.
#include "octets.h"

namespace {

constant constexpr uint THREADS = 128;
constant constexpr uint SIMDGROUPS = THREADS / fkv::LANES;

// Rows walks the rows of one head of a block with all simdgroups of a threadgroup. at is the
// row of the simdgroup's first one; offset is a lane's own.
struct Rows {
    fkv::Seat seat;
    uint32_t dim, block_size;
    uint at;

    Rows(fkv::Seat place, uint32_t row_dim, uint32_t size, uint simdgroup)
        : seat(place), dim(row_dim), block_size(size), at(simdgroup * place.rows) {}

    bool more() const { return at < block_size; }
    void next() { at += SIMDGROUPS * seat.rows; }
    uint offset() const { return at + seat.row; }
    bool there() const { return offset() < block_size; }

    // element is where the lane's octet of a deck begins, in a head that begins at row first.
    int64_t element(int64_t first, int deck) const {
        return (first + offset()) * dim + seat.in_deck(deck).octet * fkv::OCTET;
    }
};

// load is the octets of a lane, turned where flags say so; all lanes call it.
template <class T>
inline void load(thread float (&x)[fkv::DECKS][fkv::OCTET], const thread Rows &rows, const device T *from, int64_t first,
                 uint32_t flags, uint lane) {
#pragma unroll
    for (int deck = 0; deck < fkv::DECKS; deck++) {
#pragma unroll
        for (uint i = 0; i < fkv::OCTET; i++) x[deck][i] = 0;
        const bool there = rows.there() && rows.seat.in_deck(deck).taken;
        if (there) fkv::load_octet(x[deck], from + rows.element(first, deck), true);
    }
    if (fkv::DECKS == 1 && (flags & FKV_HADAMARD)) fkv::hadamard(x[0], rows.dim, lane);
}

// pack_channels codes one head of a block whose rows share scales by channel: a first walk
// finds what the channels reach, a second one has the codes. reaches is [MOST_DIM].
template <class T>
inline bool pack_channels(fkv::Codes<uint> codes, const device T *from, int64_t first, int64_t line, Rows rows,
                          constant fkv_pack_blocks_args &args, fkv::Here here, threadgroup float4 *reaches) {
    const fkv::Seat seat = rows.seat;
    const bool saturate = args.flags & FKV_SATURATE;
    float x[fkv::DECKS][fkv::OCTET]; // one: long rows share no scales
    float4 reach[fkv::OCTET];
#pragma unroll
    for (uint i = 0; i < fkv::OCTET; i++) reach[i] = fkv::NO_REACH;
    for (Rows walk = rows; walk.more(); walk.next()) {
        load(x, walk, from, first, args.flags, here.lane);
#pragma unroll
        for (uint i = 0; i < fkv::OCTET; i++) {
            reach[i] = walk.there() && seat.taken ? max(reach[i], fkv::reach_of(x[0][i])) : reach[i];
        }
    }
    for (uint apart = seat.lanes; apart < fkv::LANES; apart *= 2) {
#pragma unroll
        for (uint i = 0; i < fkv::OCTET; i++) reach[i] = max(reach[i], simd_shuffle_xor(reach[i], apart));
    }
    threadgroup float4 *own = reaches + seat.octet * fkv::OCTET;
    for (uint turn = 0; turn < SIMDGROUPS; turn++) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (turn != here.simdgroup || seat.row != 0) continue;
#pragma unroll
        for (uint i = 0; i < fkv::OCTET; i++) own[i] = turn == 0 ? reach[i] : max(own[i], reach[i]);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint words[fkv::OCTET];
    bool finite = true;
#pragma unroll
    for (uint i = 0; i < fkv::OCTET; i++) {
        reach[i] = own[i];
        words[i] = fkv::word_of(codes.coding, reach[i], saturate);
        finite = finite && fkv::is_finite(reach[i]);
    }
    if (here.simdgroup == 0 && seat.row == 0 && seat.taken) {
        device uint *scales = codes.channels(line, seat.octet);
#pragma unroll
        for (uint i = 0; i < fkv::OCTET; i++) scales[i] = words[i];
    }
    const uint4 low = uint4(words[0], words[1], words[2], words[3]);
    const uint4 high = uint4(words[4], words[5], words[6], words[7]);
    for (Rows walk = rows; walk.more(); walk.next()) {
        load(x, walk, from, first, args.flags, here.lane);
#pragma unroll
        for (uint i = 0; i < fkv::OCTET; i++) x[0][i] = fkv::storable(codes.coding, x[0][i], reach[i], saturate);
        if (walk.there() && seat.taken) {
            fkv::put_codes(codes, line * args.block_size + walk.offset(), seat.octet, x[0], low, high);
        }
    }
    return saturate || finite || !seat.taken;
}

} // namespace

// Grid: x over pairs, y over KV heads; any grid is right. Planes are aligned to 16 bytes.
// Pairs of blocks that are not there are skipped.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
FKV_NAME(const device FKV_IN *from [[buffer(FKV_PACK_BLOCKS_FROM)]],
         device uint *to [[buffer(FKV_PACK_BLOCKS_TO)]],
         device uint *scales [[buffer(FKV_PACK_BLOCKS_SCALES)]],
         const device uint32_t *pairs [[buffer(FKV_PACK_BLOCKS_PAIRS)]],
         device atomic_uint *status [[buffer(FKV_PACK_BLOCKS_STATUS)]],
         constant fkv_pack_blocks_args &args [[buffer(FKV_PACK_BLOCKS_BUFFERS)]],
         FKV_BUILTINS) {
    threadgroup float4 reaches[fkv::MOST_DIM];
    const fkv::Here here = FKV_HERE;
    const Rows rows(fkv::Seat(args.dim, here.lane), args.dim, args.block_size, here.simdgroup);
    for (int64_t i = here.group.x; i < args.pairs; i += here.groups.x) {
        const int64_t source = pairs[2 * i], target = pairs[2 * i + 1];
        if (source >= args.from_blocks || target >= args.to_blocks) {
            continue;
        }
        for (uint32_t head = here.group.y; head < args.kv_heads; head += here.groups.y) {
            const fkv::Codes<uint> codes(to, scales, args.storage, args.dim, head, args.kv_heads);
            const int64_t first = (source * args.kv_heads + head) * args.block_size;
            const int64_t line = target * args.kv_heads + head;
            bool finite = true;
            if (fkv::DECKS == 1 && codes.coding.by_channel()) {
                finite = pack_channels(codes, from, first, line, rows, args, here, reaches);
            } else {
                for (Rows walk = rows; walk.more(); walk.next()) {
                    float x[fkv::DECKS][fkv::OCTET];
                    load(x, walk, from, first, args.flags, here.lane);
                    const int64_t row = line * args.block_size + walk.offset();
                    const bool saturate = args.flags & FKV_SATURATE;
                    const bool good = fkv::put_octets(codes, row, rows.seat, walk.there(), x, saturate);
                    finite = finite && good;
                }
            }
            fkv::report(status, args.of, finite, here.lane);
        }
    }
}
