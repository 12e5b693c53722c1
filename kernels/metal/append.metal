// Append: new keys and values go to their slots of the cache, keys and queries are
// rotated on the way.
#include "plane.h"
#include "rope.h"

constant bool with_rope [[function_constant(FKV_WITH_ROPE)]];
constant bool with_queries [[function_constant(FKV_WITH_QUERIES)]];

namespace {

constant constexpr uint THREADS = 128;

// append moves W elements of a row at a time. The threads of a token share its units:
// those of its keys come first, then those of its values, then the pairs of its queries.
// k, v and q may lie in one buffer: no thread reads what another one writes.
template <int W, class Act, class KV>
inline void append(const device Act *k, const device Act *v, device Act *q, const device int64_t *slots,
                   const device uint32_t *positions, const device float *rope, device KV *kcache, device KV *vcache,
                   constant fkv_append_args &args, fkv::Here here) {
    const uint32_t pairs = with_rope ? args.rope_dims / 2 : 0;
    const bool interleaved = args.flags & FKV_INTERLEAVED;
    const uint32_t k_units = fkv::head_units<W>(args.k_dim, pairs);
    const uint32_t v_units = fkv::head_units<W>(args.v_dim, 0);
    const uint32_t q_units = pairs / W;
    const bool latent = args.flags & FKV_LATENT;
    const uint32_t k_at = latent ? args.v_dim : 0, k_row = k_at + args.k_dim; // in the cache
    const uint32_t v_row = latent ? k_row : args.v_dim;
    const uint32_t k_end = args.kv_heads * k_units;
    const uint32_t v_end = k_end + args.kv_heads * v_units;
    const uint32_t q_end = v_end + (with_queries ? args.q_heads * q_units : 0);

    for (int64_t token = here.group.x; token < args.tokens; token += here.groups.x) {
        const int64_t slot = slots[token];
        const bool stored = fkv::in_cache(slot, args.slots);
        const fkv::Place place = fkv::place_of(slot, args.block_size);
        const device float *angles = nullptr;
        if (pairs != 0) {
            const int64_t position = min(positions[token], args.rope_positions - 1);
            angles = rope + position * args.rope_dims;
        }
        for (uint32_t unit = here.group.y * THREADS + here.index; unit < q_end; unit += here.groups.y * THREADS) {
            fkv::Turn turn{angles, pairs, interleaved, 1, args.magnitude};
            if (unit >= v_end) {
                const int64_t head = (unit - v_end) / q_units;
                device Act *row = q + token * args.q_stride + head * k_row + k_at;
                fkv::turn_unit<W>(turn, (unit - v_end) % q_units, row, row);
            } else if (stored) {
                const bool key = unit < k_end;
                turn.pairs = key ? pairs : 0;
                const uint32_t dim = key ? args.k_dim : args.v_dim, units = key ? k_units : v_units;
                const uint32_t of_plane = key ? unit : unit - k_end, head = of_plane / units;
                const device Act *row = key ? k + token * args.k_stride : v + token * args.v_stride;
                const int64_t to_row = fkv::row_at(place, args.kv_heads, head, args.block_size);
                device KV *to = key ? kcache + k_at + to_row * k_row : vcache + to_row * v_row;
                fkv::turn_unit<W>(turn, of_plane % units, row + static_cast<int64_t>(head) * dim, to);
            }
        }
    }
}

} // namespace

// Grid: x over tokens, y over the units of a token, 128 a threadgroup. With pairs
// rope_dims/2 where there is a rotation and else 0, a token has
// (kv_heads*(k_dim - pairs + v_dim) + q_heads*pairs)/W of them; W is the elements in
// 16 bytes of the storage type. Any grid is right. Without wide, which asks that rows,
// planes and the table are aligned to 16 bytes and that W divides strides, dims and pairs,
// W is 1.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
FKV_NAME(const device FKV_IN *k [[buffer(FKV_APPEND_K)]],
         const device FKV_IN *v [[buffer(FKV_APPEND_V)]],
         device FKV_IN *q [[buffer(FKV_APPEND_Q), function_constant(with_queries)]],
         const device int64_t *slots [[buffer(FKV_APPEND_SLOTS)]],
         const device uint32_t *positions [[buffer(FKV_APPEND_POSITIONS), function_constant(with_rope)]],
         const device float *rope [[buffer(FKV_APPEND_ROPE), function_constant(with_rope)]],
         device FKV_OUT *kcache [[buffer(FKV_APPEND_KCACHE)]],
         device FKV_OUT *vcache [[buffer(FKV_APPEND_VCACHE)]],
         constant fkv_append_args &args [[buffer(FKV_APPEND_BUFFERS)]],
         FKV_BUILTINS) {
    device FKV_IN *queries = with_queries ? q : nullptr;
    const device uint32_t *at = with_rope ? positions : nullptr;
    const device float *angles = with_rope ? rope : nullptr;
    if (wide) {
        append<fkv::run_width<FKV_IN, FKV_OUT>()>(k, v, queries, slots, at, angles, kcache, vcache, args, FKV_HERE);
    } else {
        append<1>(k, v, queries, slots, at, angles, kcache, vcache, args, FKV_HERE);
    }
}
