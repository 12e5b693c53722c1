// Append: new keys and values go to their slots of the cache, keys and queries are
// rotated on the way.
#include "plane.cuh"
#include "rope.cuh"

namespace {

constexpr unsigned THREADS = 128;

// append moves W elements of a row at a time. The threads of a token share its units:
// those of its keys come first, then those of its values, then the pairs of its queries.
// k, v and q may lie in one buffer: no thread reads what another one writes.
template <int W, class Act, class KV>
__device__ inline void append(const Act *k, const Act *v, Act *q, const int64_t *slots, const uint32_t *positions,
                              const float *rope, KV *kcache, KV *vcache, const fkv_append_args &args) {
    const uint32_t pairs = args.flags & FKV_ROPE ? args.rope_dims / 2 : 0;
    const bool interleaved = args.flags & FKV_INTERLEAVED;
    const uint32_t k_units = fkv::head_units<W>(args.k_dim, pairs);
    const uint32_t v_units = fkv::head_units<W>(args.v_dim, 0);
    const uint32_t q_units = pairs / W;
    const bool latent = args.flags & FKV_LATENT;
    const uint32_t k_at = latent ? args.v_dim : 0, k_row = k_at + args.k_dim, v_row = latent ? k_row : args.v_dim; // in the cache
    const uint32_t k_end = args.kv_heads * k_units;
    const uint32_t v_end = k_end + args.kv_heads * v_units;
    const uint32_t q_end = v_end + args.q_heads * q_units;

    for (int64_t token = blockIdx.x; token < args.tokens; token += gridDim.x) {
        const int64_t slot = slots[token];
        const float *angles = nullptr;
        if (pairs != 0) {
            const int64_t position = min(positions[token], args.rope_positions - 1);
            angles = rope + position * args.rope_dims;
        }
        for (uint32_t unit = blockIdx.y * THREADS + threadIdx.x; unit < q_end; unit += gridDim.y * THREADS) {
            fkv::Turn turn{angles, pairs, interleaved, 1, args.magnitude};
            if (unit >= v_end) {
                const int64_t head = (unit - v_end) / q_units;
                Act *row = q + token * args.q_stride + head * k_row + k_at;
                fkv::turn_unit<W>(turn, (unit - v_end) % q_units, row, row);
                continue;
            }
            const bool key = unit < k_end;
            turn.pairs = key ? pairs : 0;
            const uint32_t dim = key ? args.k_dim : args.v_dim, units = key ? k_units : v_units;
            const uint32_t of_plane = key ? unit : unit - k_end, head = of_plane / units, nth = of_plane - head * units;
            const Act *from = (key ? k + token * args.k_stride : v + token * args.v_stride) + static_cast<int64_t>(head) * dim;
            const auto to = [&] { // waits for the slot
                const int64_t row = fkv::row_at(fkv::place_of(slot, args.block_size), args.kv_heads, head, args.block_size);
                return (key ? kcache + k_at : vcache) + row * (key ? k_row : v_row);
            };
            if (nth * W < turn.pairs) {
                if (fkv::in_cache(slot, args.slots)) fkv::turn_unit<W>(turn, nth, from, to());
                continue;
            }
            const uint32_t at = turn.pairs + nth * W;
            const fkv::Run<Act, W> run = fkv::load_run<W>(from + at); // on its way by then
            if (!fkv::in_cache(slot, args.slots)) continue;
            fkv::Run<KV, W> stored;
#pragma unroll
            for (int i = 0; i < W; i++) stored.at[i] = fkv::convert<KV>(run.at[i]);
            fkv::store_run(to() + at, stored);
        }
    }
}

} // namespace

// Grid: x over tokens, y over the units of a token, 128 a block. With pairs rope_dims/2 where
// there is a rotation and else 0, a token has
// (kv_heads*(k_dim - pairs + v_dim) + q_heads*pairs)/W of them; W is the elements in
// 16 bytes of the storage type. Any grid is right. Rows and planes that are not aligned to
// 16 bytes, and pairs that are no multiple of W, go the slow way, an element at a time.
#define APPEND(types, Act, KV)                                                                                       \
    FKV_KERNEL_OF(fkv_append_##types, THREADS, 0, 8, const Act *k, const Act *v, Act *q, const int64_t *slots,             \
               const uint32_t *positions, const float *rope, KV *kcache, KV *vcache, fkv_append_args args) {         \
        constexpr int W = fkv::wide<Act, KV>;                                                                        \
        const uint32_t pairs = args.flags & FKV_ROPE ? args.rope_dims / 2 : 0;                                       \
        const int64_t strides = args.k_stride | args.v_stride | (args.q_heads != 0 ? args.q_stride : 0);             \
        if ((strides | args.k_dim | args.v_dim | pairs) % W == 0 && fkv::aligned(k, v, q, rope, kcache, vcache)) {   \
            append<W>(k, v, q, slots, positions, rope, kcache, vcache, args);                                        \
        } else {                                                                                                     \
            append<1>(k, v, q, slots, positions, rope, kcache, vcache, args);                                        \
        }                                                                                                            \
    }

APPEND(f16_f16, fkv::half, fkv::half)
APPEND(bf16_bf16, fkv::bfloat, fkv::bfloat)
APPEND(f32_f32, float, float)
APPEND(f32_f16, float, fkv::half)
APPEND(f32_bf16, float, fkv::bfloat)
