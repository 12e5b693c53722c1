// Append to quantized caches and rotate there, for every type whose rows have scales of their own.
// Where nothing is rotated all of it is exact, to the last bit of codes and words.
#include "quant_rig.h"

using namespace rig;

namespace {

constexpr uint32_t BY_ROW[] = {FKV_STORAGE_INT8, FKV_STORAGE_INT8ASYM, FKV_STORAGE_INT4, FKV_STORAGE_INT4G64, FKV_STORAGE_FP8E4M3,
                                 FKV_STORAGE_FP8E5M2, FKV_STORAGE_MXFP4, FKV_STORAGE_NVFP4};

struct Dims { uint32_t k, v; };
constexpr Dims DIMS[] = {{64, 64}, {80, 80}, {192, 128}, {256, 256}, {96, 96}};

// expect_near compares a row that was rotated: each element is within half a step, or half a unit
// of a small float, of what it should be, and steps are no larger than they need be.
void expect_near(Plane<Quant> &got, Plane<Quant> &want, size_t row, const Floats &x) {
    double norm = 0;
    for (float v : x) {
        norm += double(v) * v;
    }
    const double slack = 1e-5 * std::sqrt(norm) + 1e-40;
    for (uint32_t d = 0; d < x.size(); d++) {
        const uint32_t word = got.words[got.word_at(row, d)];
        double bound = std::fabs(x[d]) / (got.storage & FKV_E4M3 ? 16 : 8) + 0x1p-9;
        if (quarters(got.storage)) {
            // An exponent may differ where rounding carries the largest value over a power of two, and so may
            // a small factor at a tie.
            const double step = got.factor(row, d), size = std::fabs(x[d]);
            demand(std::abs(got.byte_at(row, d) - want.byte_at(row, d)) <= 1, "a group's byte is wrong");
            bound = size <= 2 * step ? step / 4 : size <= 4 * step ? step / 2 : size <= 6 * step ? step : size - 6 * step;
        } else if (!small_floats(got.storage)) {
            const double step = got.step(word), ideal = want.step(want.words[want.word_at(row, d)]);
            demand(step <= 1.02 * ideal + slack, "a step is too large");
            bound = step * 0.51;
        }
        if (!(std::fabs(got.at(row, d) - x[d]) <= bound + slack)) {
            fail("element " + std::to_string(d) + " is " + std::to_string(got.at(row, d)) + ", want " + std::to_string(x[d]));
        }
    }
}

// take makes a row of one plane that of another.
void take(Plane<Quant> &to, Plane<Quant> &from, size_t row) {
    for (uint32_t d = 0; d < to.shape.dim; d++) {
        to.set_code(row, d, from.code(row, d));
        to.words[to.word_at(row, d)] = from.words[from.word_at(row, d)];
    }
}

template <class Act>
void check_append(uint32_t k_type, uint32_t v_type, Dims dims, bool turned, const Rope *rope, Strange strange, size_t shift) {
    constexpr uint32_t tokens = 14, kv_heads = 3, q_heads = 6, block_size = 8, blocks = 3;
    const uint32_t slots = block_size * blocks;
    where = std::string("append ") + type_name<Act> + " to " + name_of(k_type) + "/" + name_of(v_type) + ", dims " +
            std::to_string(dims.k) + (turned ? ", turned" : "") + (rope ? ", rotated" : "") +
            (strange == Strange::NONE ? "" : strange == Strange::STORED ? ", not finite" : ", saturated");
    const size_t k_stride = kv_heads * dims.k + 5, v_stride = kv_heads * dims.v, q_stride = q_heads * dims.k + 16;
    Memory<Act> k(tokens * k_stride, shift), v(tokens * v_stride, shift), q(tokens * q_stride, shift);
    q.fill();
    static uint64_t kind = 0;
    for (uint32_t row = 0; row < tokens * kv_heads; row++, kind++) {
        const Floats key = draw<Act>(dims.k, rope ? 0 : kind, strange, turned), val = draw<Act>(dims.v, kind + 3, strange);
        for (uint32_t d = 0; d < dims.k; d++) {
            k[row / kv_heads * k_stride + row % kv_heads * dims.k + d] = stored<Act>(key[d]);
        }
        for (uint32_t d = 0; d < dims.v; d++) {
            v[row / kv_heads * v_stride + row % kv_heads * dims.v + d] = stored<Act>(val[d]);
        }
    }
    Memory<int64_t> slot(tokens);
    Memory<uint32_t> position(tokens);
    const int64_t bad[] = {-1, slots, std::numeric_limits<int64_t>::min()};
    for (uint32_t i = 0; i < tokens; i++) {
        slot[i] = i % 5 == 4 ? bad[i / 5 % 3] : (i * 5 + 3) % slots;
        position[i] = rope ? uint32_t(below(rope->positions)) : 0;
    }
    Memory<float> table(rope ? rope->table.size() : 0);
    if (rope) {
        table.set(rope->table);
    }
    Plane<Quant> keys({blocks, kv_heads, block_size, dims.k}, k_type), values({blocks, kv_heads, block_size, dims.v}, v_type);
    Plane<Quant> want_keys(keys.shape, k_type), want_values(values.shape, v_type);
    Memory<uint32_t> status(1);
    status[0] = 8; // stays

    fkv_append_quant_args args{};
    args.flags = (rope ? FKV_ROPE | (rope->interleaved ? FKV_INTERLEAVED : 0) : 0) | (turned ? FKV_HADAMARD : 0) |
                 (strange == Strange::SATURATED ? FKV_SATURATE : 0);
    args.k_stride = int64_t(k_stride), args.v_stride = int64_t(v_stride), args.q_stride = int64_t(q_stride);
    args.slots = slots, args.tokens = tokens, args.kv_heads = kv_heads, args.q_heads = rope || turned ? q_heads : 0;
    args.k_dim = dims.k, args.v_dim = dims.v, args.block_size = block_size;
    args.rope_dims = rope ? rope->dims : 0, args.rope_positions = rope ? rope->positions : 0, args.magnitude = rope ? 1.25f : 0;
    args.k_storage = k_type, args.v_storage = v_type;
    const std::vector<Act> before_q = q.copy(), before_k = k.copy(), before_v = v.copy();
    launch(std::string("fkv_append_quant_") + type_name<Act>, grid(),
           {k.data(), v.data(), args.q_heads ? q.data() : nullptr, slot.data(), rope ? position.data() : nullptr,
            rope ? table.data() : nullptr, keys.codes.data(), values.codes.data(), keys.words.data(), values.words.data(), status.data()},
           args);

    uint32_t want_status = 8;
    for (uint32_t i = 0; i < tokens; i++) {
        for (uint32_t head = 0; head < args.q_heads; head++) {
            Act *at = &q[i * q_stride + head * dims.k];
            Floats x = row_of(&before_q[i * q_stride + head * dims.k], dims.k);
            if (rope) {
                rope->turn(x, position[i], args.magnitude);
            }
            if (turned) {
                hadamard(x);
            }
            for (uint32_t d = 0; d < dims.k; d++) {
                demand(rope ? std::fabs(value(at[d]) - x[d]) <= step<Act> * std::fabs(x[d]) + 1e-5 : same_bits(at[d], rounded<Act>(x[d])),
                       "a query is wrong");
            }
        }
        if (slot[i] < 0 || slot[i] >= slots) {
            continue;
        }
        for (uint32_t head = 0; head < kv_heads; head++) {
            const size_t row = keys.shape.row(slot[i], head);
            Floats key = row_of(&before_k[i * k_stride + head * dims.k], dims.k);
            if (rope) {
                rope->turn(key, position[i], args.magnitude);
            }
            if (turned) {
                hadamard(key);
            }
            want_status |= encode_row(want_keys, row, key, strange == Strange::SATURATED) ? 0 : FKV_KEYS;
            want_status |= encode_row(want_values, row, row_of(&before_v[i * v_stride + head * dims.v], dims.v),
                                      strange == Strange::SATURATED) ? 0 : FKV_VALUES;
            if (rope) {
                expect_near(keys, want_keys, row, key);
                take(want_keys, keys, row);
            }
        }
    }
    expect_same(keys, want_keys, "keys");
    expect_same(values, want_values, "values");
    demand(status[0] == want_status, "the status is wrong");
    k.expect(before_k, "what was appended");
}

template <class Act> void append_all() {
    for (uint32_t k_type : BY_ROW) {
        for (Dims dims : DIMS) {
            const uint32_t v_type = BY_ROW[below(std::size(BY_ROW))];
            const size_t shift = below(2);
            for (bool turned : {false, true}) {
                for (Strange strange : {Strange::NONE, Strange::STORED, Strange::SATURATED}) {
                    check_append<Act>(k_type, v_type, dims, turned, nullptr, strange, shift);
                }
                for (uint32_t turning : {dims.k, dims.k / 4 * 2, 10u}) {
                    const Rope rope(turning, 50, below(2) != 0);
                    check_append<Act>(k_type, v_type, dims, turned, &rope, Strange::NONE, shift);
                }
            }
        }
    }
}

void check_rotate(uint32_t type, uint32_t dim, bool turned, const Rope &rope) {
    constexpr uint32_t heads = 5, block_size = 16, blocks = 3, slots = block_size * blocks;
    where = std::string("rotate ") + name_of(type) + ", dim " + std::to_string(dim) + (turned ? ", turned" : "") + ", " +
            std::to_string(rope.dims) + (rope.interleaved ? " interleaved" : " half-split");
    const auto last = int32_t(rope.positions) - 1;
    const std::vector<int64_t> slot_list = {3, 47, -1, 0, 17, 16, 15, slots, 40};
    const std::vector<int32_t> delta_list = {1, -1, 5, 0, last, -last, 7, 3, last + 1};
    Memory<int64_t> slot(slot_list.size());
    Memory<int32_t> delta(delta_list.size());
    slot.set(slot_list), delta.set(delta_list);
    Memory<float> table(rope.table.size());
    table.set(rope.table);
    Plane<Quant> keys({blocks, heads, block_size, dim}, type), want(keys.shape, type);
    for (size_t row = 0; row < keys.shape.rows(); row++) {
        keys.draw(row);
    }
    want.codes.set(keys.codes.copy()), want.words.set(keys.words.copy());

    fkv_rotate_quant_args args{};
    args.flags = (rope.interleaved ? FKV_INTERLEAVED : 0) | (turned ? FKV_HADAMARD : 0);
    args.slots = slots, args.n = uint32_t(slot_list.size()), args.kv_heads = heads, args.k_dim = dim, args.block_size = block_size;
    args.rope_dims = rope.dims, args.rope_positions = rope.positions, args.storage = type;
    std::vector<Floats> turned_rows;
    for (size_t i = 0; i < slot_list.size(); i++) {
        for (uint32_t head = 0; head < heads && slot[i] >= 0 && slot[i] < slots; head++) {
            Floats x;
            for (uint32_t d = 0; d < dim; d++) {
                x.push_back(keys.at(keys.shape.row(slot[i], head), d));
            }
            turned_rows.push_back(x);
        }
    }
    launch("fkv_rotate_quant", grid(), {keys.codes.data(), keys.words.data(), slot.data(), delta.data(), table.data()}, args);

    auto next = turned_rows.begin();
    for (size_t i = 0; i < slot_list.size(); i++) {
        for (uint32_t head = 0; head < heads && slot[i] >= 0 && slot[i] < slots; head++) {
            Floats x = *next++;
            const size_t row = keys.shape.row(slot[i], head);
            if (delta[i] == 0 || delta[i] > last || delta[i] < -last) {
                continue;
            }
            if (turned) {
                hadamard(x);
            }
            rope.turn(x, delta[i], 1);
            if (turned) {
                hadamard(x);
            }
            encode_row(want, row, x, false);
            expect_near(keys, want, row, x);
            take(want, keys, row);
        }
    }
    expect_same(keys, want, "keys of other slots");
}

void rotate_all() {
    for (uint32_t type : BY_ROW) {
        for (uint32_t dim : {64u, 80u, 192u}) {
            for (bool turned : {false, true}) {
                check_rotate(type, dim, turned, Rope(below(2) ? dim : 10, 30, below(2) != 0));
            }
        }
    }
}

// append_unaligned appends rows that are an element from where they would be aligned.
template <class Act> void append_unaligned() {
    for (uint32_t type : BY_ROW) {
        for (bool turned : {false, true}) {
            const Rope rope(80, 50, turned);
            check_append<Act>(type, type, {80, 80}, turned, nullptr, Strange::NONE, 1);
            check_append<Act>(type, type, {80, 80}, turned, &rope, Strange::NONE, 1);
        }
    }
}

} // namespace

int main() {
    if (UNALIGNED_ONLY) {
        append_unaligned<F16>();
        append_unaligned<BF16>();
        append_unaligned<float>();
    } else {
        append_all<F16>();
        append_all<BF16>();
        append_all<float>();
        rotate_all();
    }
    std::puts("append and rotate, quantized: ok");
}
