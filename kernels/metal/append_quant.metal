// Append to caches that are quantized, or of turned floats: new keys and values go to their slots as
// codes, or floats, keys and queries are turned on the way.
#include "octets.h"

constant bool with_rope [[function_constant(FKV_WITH_ROPE)]];
constant bool with_queries [[function_constant(FKV_WITH_QUERIES)]];

namespace {

constant constexpr uint THREADS = 128;
constant constexpr uint SIMDGROUPS = THREADS / fkv::LANES;
constant constexpr int DECKS = fkv::DECKS;
constant constexpr bool LATENT = DECKS > 1; // there are no values: keys have both operands, the values first

// Part is the keys, the values or the queries of a token: rows of as many heads, which are the
// units of simdgroups from begin to end.
struct Part {
    uint32_t dim, heads, begin, end;

    Part(uint32_t row_dim, uint32_t row_heads, uint32_t first, uint lane)
        : dim(row_dim), heads(row_heads), begin(first), end(first + units(fkv::Seat(row_dim, lane).rows)) {}

  private:
    uint32_t units(uint rows) const { return (heads + rows - 1) / rows; }
};

} // namespace

// Grid: x over tokens, y over the rows of a token, of which a simdgroup has one to four at a
// time, and a threadgroup four simdgroups. Any grid is right. With wide, rows of K, V and Q
// are aligned to 16 bytes. K, V and Q may lie in one buffer: no lane reads what another one
// writes.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
FKV_NAME(const device FKV_IN *k [[buffer(FKV_APPEND_QUANT_K)]],
         const device FKV_IN *v [[buffer(FKV_APPEND_QUANT_V)]],
         device FKV_IN *q [[buffer(FKV_APPEND_QUANT_Q), function_constant(with_queries)]],
         const device int64_t *slots [[buffer(FKV_APPEND_QUANT_SLOTS)]],
         const device uint32_t *positions [[buffer(FKV_APPEND_QUANT_POSITIONS), function_constant(with_rope)]],
         const device float *rope [[buffer(FKV_APPEND_QUANT_ROPE), function_constant(with_rope)]],
         device uint *kcache [[buffer(FKV_APPEND_QUANT_KCACHE)]],
         device uint *vcache [[buffer(FKV_APPEND_QUANT_VCACHE)]],
         device uint *k_scales [[buffer(FKV_APPEND_QUANT_KSCALES)]],
         device uint *v_scales [[buffer(FKV_APPEND_QUANT_VSCALES)]],
         device atomic_uint *status [[buffer(FKV_APPEND_QUANT_STATUS)]],
         constant fkv_append_quant_args &args [[buffer(FKV_APPEND_QUANT_BUFFERS)]],
         FKV_BUILTINS) {
    threadgroup float rows[SIMDGROUPS * fkv::MOST_DIM];
    const fkv::Here here = FKV_HERE;
    const uint lane = here.lane;
    const uint32_t pairs = with_rope ? args.rope_dims / 2 : 0;
    const bool interleaved = args.flags & FKV_INTERLEAVED, saturate = args.flags & FKV_SATURATE;
    const uint32_t behind = LATENT ? args.v_dim : 0; // of a key, the elements before K and what rotates
    const Part keys(behind + args.k_dim, args.kv_heads, 0, lane);
    const Part values(args.v_dim, LATENT ? 0 : args.kv_heads, keys.end, lane);
    const Part queries(behind + args.k_dim, with_queries ? args.q_heads : 0, values.end, lane);

    for (int64_t token = here.group.x; token < args.tokens; token += here.groups.x) {
        const int64_t slot = slots[token];
        const bool stored = fkv::in_cache(slot, args.slots);
        const fkv::Place place = fkv::place_of(slot, args.block_size);
        fkv::Turn turn{nullptr, pairs, interleaved, 1, args.magnitude};
        if (with_rope) {
            const int64_t position = min(positions[token], args.rope_positions - 1);
            turn.angles = rope + position * args.rope_dims;
        }
        uint unit = here.group.y * SIMDGROUPS + here.simdgroup;
        for (; unit < queries.end; unit += here.groups.y * SIMDGROUPS) {
            const bool query = unit >= values.end, value = !query && unit >= keys.end;
            if (!query && !stored) continue;
            const Part part = query ? queries : value ? values : keys;
            const fkv::Seat seat(part.dim, lane);
            const uint32_t head = (unit - part.begin) * seat.rows + seat.row;
            const bool there = head < part.heads;
            const device FKV_IN *from = value ? v + token * args.v_stride : k + token * args.k_stride;
            if (with_queries && query) from = q + token * args.q_stride;
            from += static_cast<int64_t>(head) * (LATENT && !query ? args.k_dim : part.dim) + (query ? behind : 0);
            float x[DECKS][fkv::OCTET] = {};
#pragma unroll
            for (int deck = 0; deck < DECKS; deck++) {
                const bool last = deck == DECKS - 1;
                if (!there || !seat.in_deck(deck).taken || (query && !last)) continue;
                const device FKV_IN *row = v + token * args.v_stride + static_cast<int64_t>(head) * args.v_dim;
                row = last ? from : row + deck * fkv::MOST_DIM;
                fkv::load_octet(x[deck], row + seat.octet * fkv::OCTET, wide);
            }
            if (!value) {
                fkv::turn_octet(x[DECKS - 1], seat, turn, rows + here.simdgroup * fkv::MOST_DIM);
                if (!LATENT && (args.flags & FKV_HADAMARD)) fkv::hadamard(x[0], part.dim, lane);
            }
            if (query) {
                if (with_queries && there && seat.in_deck(DECKS - 1).taken) {
                    device FKV_IN *row = q + token * args.q_stride + static_cast<int64_t>(head) * part.dim + behind;
                    fkv::store_octet(row + seat.octet * fkv::OCTET, x[DECKS - 1], wide);
                }
                continue;
            }
            const fkv::Codes<uint> to(value ? vcache : kcache, value ? v_scales : k_scales,
                                      value ? args.v_storage : args.k_storage, part.dim, there ? head : 0,
                                      args.kv_heads);
            const int64_t row = fkv::row_at(place, args.kv_heads, there ? head : 0, args.block_size);
            const bool finite = fkv::put_octets(to, row, seat, there, x, saturate);
            fkv::report(status, value ? FKV_VALUES : FKV_KEYS, finite, lane);
        }
    }
}
