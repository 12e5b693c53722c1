// Caches of floats whose keys are stored turned: append, gather and rotate by the kernels of quantized
// caches. Where nothing is rotated all of it is exact.
#include "quant_rig.h"

using namespace rig;

namespace {

template <class T> constexpr uint32_t WORD = std::is_same_v<T, float> ? FKV_F32 : std::is_same_v<T, F16> ? FKV_F16 : FKV_BF16;

constexpr uint32_t HEADS = 3, BLOCK = 8, BLOCKS = 5, SLOTS = BLOCK * BLOCKS;

// put makes a row of what x is to be stored as.
template <class T> void put(T *row, const Floats &x) {
    std::transform(x.begin(), x.end(), row, [](float v) { return rounded<T>(v); });
}

template <class Act, class KV> void check_append(uint32_t k_dim, uint32_t v_dim, size_t shift) {
    constexpr uint32_t tokens = 9, q_heads = 6;
    where = std::string("append ") + type_name<Act> + " to turned " + type_name<KV> + ", dims " + std::to_string(k_dim) + " and " + std::to_string(v_dim);
    const size_t k_stride = HEADS * k_dim + 5, v_stride = HEADS * v_dim, q_stride = q_heads * k_dim;
    Memory<Act> k(tokens * k_stride, shift), v(tokens * v_stride, shift), q(tokens * q_stride, shift);
    k.fill(), v.fill(), q.fill();
    Memory<int64_t> slot(tokens);
    slot.set({3, 17, -1, 8, SLOTS - 1, SLOTS, 0, std::numeric_limits<int64_t>::min(), 16});
    Memory<KV> keys(size_t{SLOTS} * HEADS * k_dim), values(size_t{SLOTS} * HEADS * v_dim);
    Memory<uint32_t> status(1);
    status[0] = 8; // stays

    fkv_append_quant_args args{};
    args.flags = FKV_HADAMARD;
    args.k_stride = int64_t(k_stride), args.v_stride = int64_t(v_stride), args.q_stride = int64_t(q_stride);
    args.slots = SLOTS, args.tokens = tokens, args.kv_heads = HEADS, args.q_heads = q_heads;
    args.k_dim = k_dim, args.v_dim = v_dim, args.block_size = BLOCK, args.k_storage = WORD<KV>, args.v_storage = WORD<KV>;
    std::vector<KV> want_keys = keys.copy(), want_values = values.copy();
    std::vector<Act> want_q = q.copy();
    const Shape shape{BLOCKS, HEADS, BLOCK, k_dim};
    for (uint32_t i = 0; i < tokens; i++) {
        for (uint32_t head = 0; head < q_heads; head++) {
            Act *row = &want_q[i * q_stride + head * k_dim];
            Floats x = row_of(row, k_dim);
            hadamard(x);
            put(row, x);
        }
        for (uint32_t head = 0; head < HEADS && slot[i] >= 0 && slot[i] < SLOTS; head++) {
            const size_t to = shape.row(slot[i], head);
            Floats x = row_of(&k[i * k_stride + head * k_dim], k_dim);
            hadamard(x);
            put(&want_keys[to * k_dim], x);
            put(&want_values[to * v_dim], row_of(&v[i * v_stride + head * v_dim], v_dim));
        }
    }
    launch(std::string("fkv_append_quant_") + type_name<Act>, grid(),
           {k.data(), v.data(), q.data(), slot.data(), nullptr, nullptr, keys.data(), values.data(), keys.data(), values.data(), status.data()}, args);
    keys.expect(want_keys, "the keys");
    values.expect(want_values, "the values");
    q.expect(want_q, "the queries");
    demand(status[0] == 8, "the status is wrong");
}

template <class KV> void check_gather(uint32_t dim, bool paged, int64_t begin, int64_t len) {
    where = std::string("gather turned ") + type_name<KV> + ", dim " + std::to_string(dim) + (paged ? ", paged" : "");
    const uint32_t block = paged ? BLOCK : 61;
    const Shape shape{BLOCKS, HEADS, block, dim};
    Memory<KV> cache(shape.rows() * dim);
    cache.fill();
    Memory<float> out(size_t(HEADS * len) * dim);
    std::vector<float> want = out.copy();
    Memory<uint32_t> table(BLOCKS);
    table.set({4, BLOCKS, 1, 0, 2}); // one is none of the cache's
    fkv_gather_quant_args args{};
    args.block = 3, args.begin = begin, args.len = len;
    args.blocks = BLOCKS, args.kv_heads = HEADS, args.block_size = block, args.dim = dim, args.row = dim, args.storage = WORD<KV>, args.flags = FKV_HADAMARD;
    launch("fkv_gather_quant", grid(), {cache.data(), cache.data(), paged ? table.data() : nullptr, out.data()}, args);
    for (uint32_t head = 0; head < HEADS; head++) {
        for (int64_t i = 0; i < len; i++) {
            const uint32_t of = paged ? table[(begin + i) / block] : args.block;
            if (of < BLOCKS) {
                Floats x = row_of(&cache[shape.row(int64_t(of) * block + (begin + i) % block, head) * dim], dim);
                hadamard(x);
                std::copy(x.begin(), x.end(), want.begin() + (head * len + i) * dim);
            }
        }
    }
    out.expect(want, "what was gathered");
}

template <class KV> void check_rotate(uint32_t dim, const Rope &rope) {
    where = std::string("rotate turned ") + type_name<KV> + ", dim " + std::to_string(dim) + ", " + std::to_string(rope.dims) +
            (rope.interleaved ? " interleaved" : " half-split");
    const auto last = int32_t(rope.positions) - 1;
    const std::vector<int64_t> slots = {3, SLOTS - 1, -1, 0, 17, 16, SLOTS, 30};
    const std::vector<int32_t> deltas = {1, -1, 5, 0, last, -last, 3, last + 1};
    Memory<int64_t> slot(slots.size());
    Memory<int32_t> delta(slots.size());
    Memory<float> table(rope.table.size());
    slot.set(slots), delta.set(deltas), table.set(rope.table);
    const Shape shape{BLOCKS, HEADS, BLOCK, dim};
    Memory<KV> keys(shape.rows() * dim);
    keys.fill();
    constexpr bool narrow = std::is_same_v<KV, F16>;
    for (size_t i = 0; narrow && i < keys.size(); i++) { // rows that leave its range
        keys[i] = rounded<KV>(below(2) ? largest<KV> : -largest<KV>);
    }
    std::vector<KV> want = keys.copy();
    fkv_rotate_quant_args args{};
    args.flags = FKV_HADAMARD | (rope.interleaved ? FKV_INTERLEAVED : 0);
    args.slots = SLOTS, args.n = uint32_t(slots.size()), args.kv_heads = HEADS, args.k_dim = dim, args.block_size = BLOCK;
    args.rope_dims = rope.dims, args.rope_positions = rope.positions, args.storage = WORD<KV>;
    launch("fkv_rotate_quant", grid(), {keys.data(), keys.data(), slot.data(), delta.data(), table.data()}, args);
    for (size_t i = 0; i < slots.size(); i++) {
        if (slots[i] < 0 || slots[i] >= SLOTS || deltas[i] == 0 || std::abs(deltas[i]) > last) {
            continue;
        }
        for (uint32_t head = 0; head < HEADS; head++) {
            const size_t first = shape.row(slots[i], head) * dim;
            Floats x = row_of(&want[first], dim);
            hadamard(x);
            rope.turn(x, deltas[i], 1);
            hadamard(x);
            for (uint32_t d = 0; d < dim; d++) {
                const double want_d = std::clamp<double>(x[d], -largest<KV>, largest<KV>);
                demand(std::fabs(value(keys[first + d]) - want_d) <= step<KV> * std::fabs(want_d) + (narrow ? 1 : 1e-5), "a key is wrong");
                want[first + d] = keys[first + d];
            }
        }
    }
    keys.expect(want, "keys of other slots");
}

template <class Act, class KV> void append_all(std::initializer_list<size_t> shifts) {
    for (size_t shift : shifts) {
        check_append<Act, KV>(64, 64, shift);
        check_append<Act, KV>(80, 80, shift);
        check_append<Act, KV>(192, 128, shift);
        check_append<Act, KV>(256, 256, shift);
    }
}

void appends(std::initializer_list<size_t> shifts) {
    append_all<F16, F16>(shifts);
    append_all<BF16, BF16>(shifts);
    append_all<float, float>(shifts);
    append_all<float, F16>(shifts);
    append_all<float, BF16>(shifts);
}

template <class KV> void others() {
    for (uint32_t dim : {64u, 80u, 256u}) {
        check_gather<KV>(dim, true, 3, 35);
        check_gather<KV>(dim, false, 11, 37);
        check_rotate<KV>(dim, Rope(dim, 30, below(2) != 0));
        check_rotate<KV>(dim, Rope(10, 30, below(2) != 0));
    }
}

} // namespace

int main() {
    if (UNALIGNED_ONLY) {
        appends({1});
    } else {
        appends({0, 1});
        others<F16>();
        others<BF16>();
        others<float>();
    }
    std::puts("floats that are stored turned: ok");
}
