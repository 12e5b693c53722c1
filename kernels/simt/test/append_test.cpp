// Append and rotate: every format, pairing and kind of row, against a reference in double.
#include "rig.h"

using namespace rig;

namespace {

constexpr int64_t LOWEST = std::numeric_limits<int64_t>::min(), HIGHEST = std::numeric_limits<int64_t>::max();

struct Rope {
    uint32_t dims, positions;
    bool interleaved;
    float magnitude;
    std::vector<float> table; // [positions, dims/2, 2]

    Rope(uint32_t dims, uint32_t positions, bool interleaved, float magnitude)
        : dims(dims), positions(positions), interleaved(interleaved), magnitude(magnitude) {
        for (uint32_t p = 0; p < positions; p++) {
            for (uint32_t i = 0; i < dims / 2; i++) {
                const double angle = p * std::pow(10000, -2.0 * i / dims);
                table.push_back(static_cast<float>(std::cos(angle)));
                table.push_back(static_cast<float>(std::sin(angle)));
            }
        }
    }
};

// expect_turned checks a head of got: it is before with its leading dims turned by delta
// positions, to a magnitude of most, and the others as they were.
template <class From, class To>
void expect_turned(const From *before, const To *got, uint32_t dim, const Rope *rope, int64_t delta, double magnitude,
                   const char *what, double most = INFINITY) {
    const uint32_t dims = rope ? rope->dims : 0;
    for (uint32_t i = dims; i < dim; i++) {
        if constexpr (std::is_same_v<From, To>) {
            demand(same_bits(got[i], before[i]), what);
        } else {
            demand(same_bits(got[i], rounded<To>(value(before[i]))), what);
        }
    }
    for (uint32_t i = 0; i < dims / 2; i++) {
        const uint32_t low = rope->interleaved ? 2 * i : i, high = rope->interleaved ? low + 1 : low + dims / 2;
        const float *angle = &rope->table[(std::abs(delta) * (dims / 2) + i) * 2];
        const double cos = angle[0], sin = delta < 0 ? -angle[1] : angle[1];
        const double a = value(before[low]), b = value(before[high]);
        const double limit = step<To> * magnitude * (std::fabs(a) + std::fabs(b)) + 1e-7;
        demand(std::fabs(value(got[low]) - std::clamp((a * cos - b * sin) * magnitude, -most, most)) <= limit, what);
        demand(std::fabs(value(got[high]) - std::clamp((a * sin + b * cos) * magnitude, -most, most)) <= limit, what);
    }
}

// Case is one call of append. With fused, the rows of q, k and v are parts of the
// rows of one buffer. gap lies between rows, and shift moves all of them off their alignment.
struct Case {
    uint32_t tokens, kv_heads, q_heads, k_dim, v_dim, block_size, blocks;
    bool fused;
    size_t gap, shift;
};

// border is values at which rounding to a half type changes its rule.
const double border[] = {0,     -0.0,  1 + 1. / 1024, 1 + 1. / 2048, 1 + 3. / 2048, 1 + 1. / 256, 1 + 3. / 256,
                         65504, 65519, 65520,         -1e6,          6.1e-5,        6.0e-5,       5.9e-8,
                         2.9e-8, 3.0e-8, 1e-12,       INFINITY,      -INFINITY};

template <class Act, class KV> void check_append(const Case &c, const Rope *rope) {
    const size_t q_width = c.q_heads * c.k_dim, k_width = c.kv_heads * c.k_dim, v_width = c.kv_heads * c.v_dim;
    const size_t width = q_width + k_width + v_width + c.gap;
    const size_t q_stride = c.fused ? width : q_width, k_stride = c.fused ? width : k_width + c.gap;
    const size_t v_stride = c.fused ? width : v_width + 2 * c.gap;
    const size_t slots = size_t{c.blocks} * c.block_size, rows = slots * c.kv_heads;

    Memory<Act> all(c.tokens * (c.fused ? width : q_stride + k_stride + v_stride), c.shift);
    all.fill();
    Act *q = all.data();
    Act *k = q + (c.fused ? q_width : c.tokens * q_stride), *v = k + (c.fused ? k_width : c.tokens * k_stride);
    for (size_t i = 0; c.tokens > 0 && i < v_width; i++) {
        v[i] = rounded<Act>(border[i % std::size(border)]);
    }
    if (c.tokens > 0 && std::is_same_v<Act, KV>) {
        std::memset(&v[1], 0xff, sizeof v[1]); // a NaN whose bits must be kept
        std::memset(&v[1], 0x83, 1);
    }
    const std::vector<Act> before = all.copy();

    Memory<int64_t> slot(c.tokens);
    Memory<uint32_t> position(c.tokens);
    const int64_t bad[] = {-1, -2, static_cast<int64_t>(slots), LOWEST, HIGHEST, int64_t{1} << 32};
    std::vector<int64_t> order(slots);
    for (size_t i = 0; i < slots; i++) {
        order[i] = static_cast<int64_t>(i);
    }
    std::shuffle(order.begin(), order.end(), generator);
    for (uint32_t i = 0; i < c.tokens; i++) {
        slot[i] = i % 3 == 2 ? bad[i / 3 % std::size(bad)] : order[i];
        position[i] = rope ? static_cast<uint32_t>(below(rope->positions)) : 0;
    }
    if (rope && c.tokens > 0) {
        position[0] = 0xffffffff; // stands for the last row of the table
    }
    Memory<float> table(rope ? rope->table.size() : 0, c.shift);
    if (rope) {
        table.set(rope->table);
    }
    Memory<KV> kcache(rows * c.k_dim, c.shift), vcache(rows * c.v_dim, c.shift);
    std::vector<KV> want_k = kcache.copy(), want_v = vcache.copy();

    fkv_append_args args{};
    args.flags = rope ? FKV_ROPE | (rope->interleaved ? FKV_INTERLEAVED : 0) : 0;
    args.k_stride = static_cast<int64_t>(k_stride), args.v_stride = static_cast<int64_t>(v_stride);
    args.q_stride = static_cast<int64_t>(q_stride);
    args.slots = static_cast<int64_t>(slots);
    args.tokens = c.tokens, args.kv_heads = c.kv_heads, args.q_heads = c.q_heads;
    args.k_dim = c.k_dim, args.v_dim = c.v_dim, args.block_size = c.block_size;
    if (rope) {
        args.rope_dims = rope->dims, args.rope_positions = rope->positions, args.magnitude = rope->magnitude;
    }
    launch(std::string("fkv_append_") + type_name<Act> + "_" + type_name<KV>, grid(),
           {k, v, c.q_heads ? q : nullptr, slot.data(), rope ? position.data() : nullptr, rope ? table.data() : nullptr,
            kcache.data(), vcache.data()}, args);

    const Act *old_q = before.data(), *old_k = old_q + (k - q), *old_v = old_q + (v - q);
    std::vector<Act> want = before;
    const double magnitude = rope ? rope->magnitude : 1;
    for (uint32_t i = 0; i < c.tokens; i++) {
        const int64_t at = rope && i == 0 ? rope->positions - 1 : position[i];
        for (uint32_t head = 0; head < c.q_heads; head++) {
            const size_t row = i * q_stride + head * c.k_dim;
            expect_turned(old_q + row, q + row, c.k_dim, rope, at, magnitude, "a query is wrong");
            std::copy(q + row, q + row + c.k_dim, &want[row]);
        }
        if (slot[i] < 0 || slot[i] >= static_cast<int64_t>(slots)) {
            continue;
        }
        for (uint32_t head = 0; head < c.kv_heads; head++) {
            const size_t row = (slot[i] / c.block_size * c.kv_heads + head) * c.block_size + slot[i] % c.block_size;
            const KV *key = &kcache[row * c.k_dim], *val = &vcache[row * c.v_dim];
            expect_turned(old_k + i * k_stride + head * c.k_dim, key, c.k_dim, rope, at, magnitude, "a key is wrong");
            expect_turned(old_v + i * v_stride + head * c.v_dim, val, c.v_dim, nullptr, 0, 1, "a value is wrong");
            std::copy(key, key + c.k_dim, &want_k[row * c.k_dim]);
            std::copy(val, val + c.v_dim, &want_v[row * c.v_dim]);
        }
    }
    all.expect(want, "what is no query");
    kcache.expect(want_k, "the keys of other slots");
    vcache.expect(want_v, "the values of other slots");
}

template <class Act, class KV> void append_all() {
    const Case cases[] = {
        {1, 1, 1, 64, 64, 8, 2, false, 0, 0},    {19, 2, 6, 64, 64, 8, 6, false, 16, 0},
        {7, 3, 3, 80, 80, 16, 2, true, 8, 0},    {5, 2, 4, 192, 128, 37, 1, true, 0, 0},
        {9, 1, 0, 256, 256, 16, 1, false, 8, 0}, {5, 2, 2, 64, 64, 8, 1, true, 0, 1},
        {5, 2, 2, 64, 64, 8, 1, true, 5, 0},     {5, 2, 2, 64, 64, 8, 1, false, 3, 0},
        {4, 1, 2, 20, 12, 8, 1, false, 4, 0},    {0, 1, 1, 64, 64, 8, 1, false, 0, 0},
    };
    for (const Case &c : cases) {
        const std::string name = std::string("append ") + type_name<Act> + " to " + type_name<KV> + ", dims " +
                                 std::to_string(c.k_dim) + ", gap " + std::to_string(c.gap) + ", shift " +
                                 std::to_string(c.shift);
        where = name;
        check_append<Act, KV>(c, nullptr);
        for (uint32_t dims : {c.k_dim, c.k_dim / 4 * 2, 16u, 10u, 2u}) {
            for (bool interleaved : {false, true}) {
                where = name + ", rotated " + std::to_string(dims) + (interleaved ? " interleaved" : " half-split");
                const Rope rope(dims, 50, interleaved, 1.25f);
                check_append<Act, KV>(c, &rope);
            }
        }
    }
}

// Of the k_dim elements of a key those from at on turn.
template <class T> void check_rotate(const Rope &rope, uint32_t k_dim, size_t shift, uint32_t at = 0) {
    constexpr uint32_t heads = 3, block_size = 16, slots = 64;
    const auto last = static_cast<int32_t>(rope.positions) - 1;
    const std::vector<int64_t> slot_list = {3, 63, -1, 0, 17, 16, 15, slots, 40, LOWEST, 41, 42, 43, -2};
    constexpr int32_t lowest = std::numeric_limits<int32_t>::min();
    const std::vector<int32_t> delta_list = {1, -1, 5, 0, last, -last, 7, 3, -20, 1, last + 1, -last - 1, lowest, 1};
    Memory<int64_t> slot(slot_list.size());
    Memory<int32_t> delta(delta_list.size());
    slot.set(slot_list), delta.set(delta_list);
    Memory<float> table(rope.table.size(), shift);
    table.set(rope.table);
    Memory<T> keys(size_t{slots} * heads * k_dim, shift);
    keys.fill();
    std::memset(keys.data(), 0xff, k_dim * sizeof(T)); // slot 0 stays: no arithmetic on its NaNs
    std::memset(keys.data(), 0x83, 1);
    const double most = largest<T>;
    for (uint32_t d = 0; d < k_dim; d++) { // of slot 16, which turns: pairs leave the range
        keys[size_t{16} * heads * k_dim + d] = rounded<T>(d % 3 ? most : -most);
    }
    const std::vector<T> before = keys.copy();
    std::vector<T> want = before;

    fkv_rotate_args args{};
    args.flags = rope.interleaved ? FKV_INTERLEAVED : 0;
    args.slots = slots, args.n = static_cast<uint32_t>(slot_list.size());
    args.kv_heads = heads, args.k_dim = k_dim, args.block_size = block_size;
    args.rope_dims = rope.dims, args.rope_positions = rope.positions, args.rope_at = at;
    launch(std::string("fkv_rotate_") + type_name<T>, grid(), {keys.data(), slot.data(), delta.data(), table.data()},
           args);

    for (size_t i = 0; i < slot_list.size(); i++) {
        if (slot[i] < 0 || slot[i] >= slots || delta[i] == 0 || delta[i] > last || delta[i] < -last) {
            continue;
        }
        for (uint32_t head = 0; head < heads; head++) {
            const size_t row = ((slot[i] / block_size * heads + head) * block_size + slot[i] % block_size) * k_dim;
            demand(std::memcmp(&before[row], &keys[row], at * sizeof(T)) == 0, "what is before it has changed");
            expect_turned(&before[row + at], &keys[row + at], k_dim - at, &rope, delta[i], 1, "a key is not turned as it should be", most);
            std::copy(&keys[row], &keys[row] + k_dim, &want[row]);
        }
    }
    keys.expect(want, "the keys of other slots");
}

// check_latent appends keys of which V is the beginning and K the rest, which turns, as the end of queries does.
template <class Act, class KV> void check_latent(const Rope *rope, uint32_t k_dim, uint32_t v_dim) {
    constexpr uint32_t tokens = 5, heads = 2, q_heads = 3, block_size = 8, blocks = 2, slots = block_size * blocks;
    const uint32_t width = k_dim + v_dim;
    where = std::string("append to a latent cache ") + type_name<Act> + " to " + type_name<KV> + ", " + std::to_string(v_dim) + " and " + std::to_string(k_dim);
    Memory<Act> k(tokens * heads * k_dim), v(tokens * heads * v_dim), q(tokens * q_heads * width);
    k.fill(), v.fill(), q.fill();
    const std::vector<Act> before_k = k.copy(), before_v = v.copy(), before = q.copy();
    Memory<int64_t> slot(tokens);
    slot.set({3, 15, -1, 0, slots});
    Memory<uint32_t> position(tokens);
    position.set({0, 7, 2, 9, 1});
    Memory<float> table(rope ? rope->table.size() : 0);
    if (rope) {
        table.set(rope->table);
    }
    Memory<KV> cache(size_t{slots} * heads * width);
    std::vector<KV> want = cache.copy();
    fkv_append_args args{};
    args.flags = FKV_LATENT | (rope ? FKV_ROPE | (rope->interleaved ? FKV_INTERLEAVED : 0) : 0);
    args.k_stride = heads * k_dim, args.v_stride = heads * v_dim, args.q_stride = q_heads * width;
    args.slots = slots, args.tokens = tokens, args.kv_heads = heads, args.q_heads = rope ? q_heads : 0;
    args.k_dim = k_dim, args.v_dim = v_dim, args.block_size = block_size;
    if (rope) {
        args.rope_dims = rope->dims, args.rope_positions = rope->positions, args.magnitude = rope->magnitude;
    }
    launch(std::string("fkv_append_") + type_name<Act> + "_" + type_name<KV>, grid(),
           {k.data(), v.data(), rope ? q.data() : nullptr, slot.data(), rope ? position.data() : nullptr, rope ? table.data() : nullptr,
            cache.data(), cache.data()}, args);
    const double magnitude = rope ? rope->magnitude : 1;
    for (uint32_t i = 0; i < tokens; i++) {
        for (uint32_t head = 0; rope && head < q_heads; head++) {
            const size_t row = (i * q_heads + head) * width;
            demand(std::memcmp(&before[row], &q[row], v_dim * sizeof(Act)) == 0, "a query's latent has changed");
            expect_turned(&before[row + v_dim], &q[row + v_dim], k_dim, rope, position[i], magnitude, "a query is wrong");
        }
        if (slot[i] < 0 || slot[i] >= int64_t{slots}) {
            continue;
        }
        for (uint32_t head = 0; head < heads; head++) {
            const size_t row = ((slot[i] / block_size * heads + head) * block_size + slot[i] % block_size) * width;
            expect_turned(&before_v[(i * heads + head) * v_dim], &cache[row], v_dim, nullptr, 0, 1, "a latent is wrong");
            expect_turned(&before_k[(i * heads + head) * k_dim], &cache[row + v_dim], k_dim, rope, position[i], magnitude, "what is behind a latent is wrong");
            std::copy(&cache[row], &cache[row] + width, &want[row]);
        }
    }
    cache.expect(want, "the slots of nobody");
}

template <class Act, class KV> void latent_all() {
    const Rope half(64, 10, false, 1.25f), pairs(16, 10, true, 1), odd(10, 10, false, 1);
    for (const Rope *rope : {static_cast<const Rope *>(nullptr), &half, &pairs, &odd}) {
        check_latent<Act, KV>(rope, 64, 512);
    }
    check_latent<Act, KV>(&odd, 13, 20);
}

template <class T> void rotate_all() {
    for (uint32_t dims : {2u, 10u, 16u, 32u, 64u}) {
        for (bool interleaved : {false, true}) {
            for (size_t shift : {0, 1}) {
                where = std::string("rotate ") + type_name<T> + ", " + std::to_string(dims) +
                        (interleaved ? " interleaved" : " half-split");
                check_rotate<T>(Rope(dims, 30, interleaved, 1), 64, shift);
                check_rotate<T>(Rope(dims, 30, interleaved, 1), 80, shift);
                check_rotate<T>(Rope(dims, 30, interleaved, 1), 576, shift, 512);
            }
        }
    }
}

} // namespace

int main() {
    append_all<F16, F16>();
    append_all<BF16, BF16>();
    append_all<float, float>();
    append_all<float, F16>();
    append_all<float, BF16>();
    latent_all<F16, F16>();
    latent_all<BF16, BF16>();
    latent_all<float, float>();
    latent_all<float, F16>();
    latent_all<float, BF16>();
    rotate_all<F16>();
    rotate_all<BF16>();
    rotate_all<float>();
    std::puts("append and rotate: ok");
}
