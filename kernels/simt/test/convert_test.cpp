// What becomes of whole rows of quantized caches: gather, and blocks packed and unpacked, for every
// storage type. All of it is exact, to the last bit of codes and words.
#include "quant_rig.h"

using namespace rig;

namespace {

void check_gather(uint32_t type, uint32_t dim, bool turned, bool paged, int64_t begin, int64_t len) {
    constexpr uint32_t heads = 3, blocks = 9;
    const uint32_t block_size = paged ? 8 : 61;
    where = std::string("gather ") + name_of(type) + ", dim " + std::to_string(dim) + (turned ? ", turned" : "") + (paged ? ", paged" : "");
    Plane<Quant> plane({blocks, heads, block_size, dim}, type);
    for (size_t row = 0; row < plane.shape.rows(); row++) {
        plane.draw(row);
    }
    Memory<float> out(size_t(heads * len) * dim);
    std::vector<float> want = out.copy();
    Memory<uint32_t> table(blocks);
    table.set({4, 1, blocks, 8, 0xffffffff, 2, 0, 7, 3}); // two are none of the cache's
    fkv_gather_quant_args args{};
    args.block = 5, args.begin = begin, args.len = len;
    args.blocks = blocks, args.kv_heads = heads, args.block_size = block_size, args.dim = dim, args.row = dim;
    args.storage = type, args.flags = turned ? FKV_HADAMARD : 0;
    launch("fkv_gather_quant", grid(), {plane.codes.data(), plane.words.data(), paged ? table.data() : nullptr, out.data()}, args);
    for (uint32_t head = 0; head < heads; head++) {
        for (int64_t i = 0; i < len; i++) {
            const uint32_t block = paged ? table[(begin + i) / block_size] : args.block;
            if (block >= blocks) {
                continue;
            }
            Floats x;
            for (uint32_t d = 0; d < dim; d++) {
                x.push_back(plane.at(plane.shape.row(int64_t(block) * block_size + (begin + i) % block_size, head), d));
            }
            if (turned) {
                hadamard(x);
            }
            std::copy(x.begin(), x.end(), want.begin() + (head * len + i) * dim);
        }
    }
    out.expect(want, "what was gathered");
}

void gather_all() {
    for (const auto &[name, type] : STORAGES) {
        for (uint32_t dim : {64u, 80u, 256u}) {
            for (bool turned : {false, true}) {
                check_gather(type, dim, turned, true, 3, 60);
                check_gather(type, dim, turned, false, 11, 37);
            }
        }
    }
}

// Pairs of blocks: two of them name none.
const std::vector<uint32_t> PAIRS = {3, 0, 0, 2, 5, 1, 1, 4};
constexpr uint32_t FROM_BLOCKS = 5, TO_BLOCKS = 4, HEADS = 3;

template <class T> void check_pack(uint32_t type, uint32_t dim, uint32_t block_size, bool turned, Strange strange, size_t shift) {
    where = std::string("pack ") + type_name<T> + " to " + name_of(type) + ", dim " + std::to_string(dim) + (turned ? ", turned" : "") +
            (strange == Strange::NONE ? "" : strange == Strange::STORED ? ", not finite" : ", saturated");
    const Shape from{FROM_BLOCKS, HEADS, block_size, dim};
    Memory<T> plain(from.rows() * dim, shift);
    for (size_t row = 0; row < from.rows(); row++) {
        const Floats x = draw<T>(dim, row, strange, turned);
        for (uint32_t d = 0; d < dim; d++) {
            plain[row * dim + d] = stored<T>(x[d]);
        }
    }
    Plane<Quant> to({TO_BLOCKS, HEADS, block_size, dim}, type), want(to.shape, type);
    Memory<uint32_t> pairs(PAIRS.size()), status(1);
    pairs.set(PAIRS), status[0] = 0;
    fkv_pack_blocks_args args{};
    args.pairs = uint32_t(PAIRS.size() / 2), args.from_blocks = FROM_BLOCKS, args.to_blocks = TO_BLOCKS;
    args.kv_heads = HEADS, args.block_size = block_size, args.dim = dim, args.storage = type, args.of = FKV_VALUES;
    args.flags = (turned ? FKV_HADAMARD : 0) | (strange == Strange::SATURATED ? FKV_SATURATE : 0);
    launch(std::string("fkv_pack_blocks_") + type_name<T>, grid(),
           {plain.data(), to.codes.data(), to.words.data(), pairs.data(), status.data()}, args);
    bool good = true;
    for (uint32_t i = 0; i < args.pairs; i++) {
        if (PAIRS[2 * i] >= FROM_BLOCKS || PAIRS[2 * i + 1] >= TO_BLOCKS) {
            continue;
        }
        for (uint32_t head = 0; head < HEADS; head++) {
            std::vector<Floats> rows;
            const size_t source = from.row(int64_t(PAIRS[2 * i]) * block_size, head), first = to.shape.row(int64_t(PAIRS[2 * i + 1]) * block_size, head);
            for (uint32_t t = 0; t < block_size; t++) {
                rows.push_back(row_of(&plain[(source + t) * dim], dim));
                if (turned) {
                    hadamard(rows.back());
                }
                if (!by_channel(type)) {
                    good &= encode_row(want, first + t, rows.back(), strange == Strange::SATURATED);
                }
            }
            for (uint32_t d = 0; by_channel(type) && d < dim; d++) {
                Floats column;
                for (const Floats &row : rows) {
                    column.push_back(row[d]);
                }
                good &= encode(want, column, strange == Strange::SATURATED, [&](size_t t) { return std::pair<size_t, uint32_t>(first + t, d); });
            }
        }
    }
    expect_same(to, want, "blocks");
    demand(status[0] == (good ? 0 : FKV_VALUES), "the status is wrong");
}

template <class T> void check_unpack(uint32_t type, uint32_t dim, uint32_t block_size, bool turned, size_t shift) {
    where = std::string("unpack ") + name_of(type) + " to " + type_name<T> + ", dim " + std::to_string(dim) + (turned ? ", turned" : "");
    Plane<Quant> from({FROM_BLOCKS, HEADS, block_size, dim}, type);
    for (size_t row = 0; row < from.shape.rows(); row++) {
        from.draw(row);
        if (row % 3 == 0) {
            from.enlarge(row, std::is_same_v<T, F16> ? 16 : turned ? 100 : 126); // f16 ends before, and f32 with some of 126
        }
    }
    const Shape to{TO_BLOCKS, HEADS, block_size, dim};
    Memory<T> plain(to.rows() * dim, shift);
    std::vector<T> want = plain.copy();
    Memory<uint32_t> pairs(PAIRS.size());
    pairs.set(PAIRS);
    fkv_unpack_blocks_args args{};
    args.pairs = uint32_t(PAIRS.size() / 2), args.from_blocks = FROM_BLOCKS, args.to_blocks = TO_BLOCKS;
    args.kv_heads = HEADS, args.block_size = block_size, args.dim = dim, args.storage = type, args.flags = turned ? FKV_HADAMARD : 0;
    launch(std::string("fkv_unpack_blocks_") + type_name<T>, grid(), {from.codes.data(), from.words.data(), plain.data(), pairs.data()}, args);
    for (uint32_t i = 0; i < args.pairs; i++) {
        if (PAIRS[2 * i] >= FROM_BLOCKS || PAIRS[2 * i + 1] >= TO_BLOCKS) {
            continue;
        }
        for (uint32_t head = 0; head < HEADS; head++) {
            for (uint32_t t = 0; t < block_size; t++) {
                Floats x;
                for (uint32_t d = 0; d < dim; d++) {
                    x.push_back(from.at(from.shape.row(int64_t(PAIRS[2 * i]) * block_size + t, head), d));
                }
                if (turned) {
                    hadamard(x);
                }
                T *row = &want[to.row(int64_t(PAIRS[2 * i + 1]) * block_size + t, head) * dim];
                std::transform(x.begin(), x.end(), row, [](float v) {
                    return rounded<T>(std::clamp<double>(v, -largest<T>, largest<T>));
                });
            }
        }
    }
    plain.expect(want, "the blocks");
}

// The host demands aligned planes, which Metal's kernels count on.
#ifdef FKV_METAL
constexpr int64_t SHIFTS = 1;
#else
constexpr int64_t SHIFTS = 2;
#endif

template <class T> void convert_all() {
    for (const auto &[name, type] : STORAGES) {
        for (uint32_t dim : {64u, 80u, 256u}) {
            const uint32_t block_size = below(2) ? 8 : 21;
            for (bool turned : {false, true}) {
                for (Strange strange : {Strange::NONE, Strange::STORED, Strange::SATURATED}) {
                    check_pack<T>(type, dim, block_size, turned, strange, below(SHIFTS));
                }
                check_unpack<T>(type, dim, block_size, turned, below(SHIFTS));
            }
        }
    }
}

// convert_unaligned converts rows that are an element from where they would be aligned.
template <class T> void convert_unaligned() {
    for (const auto &[name, type] : STORAGES) {
        for (bool turned : {false, true}) {
            check_pack<T>(type, 80, 8, turned, Strange::NONE, 1);
            check_unpack<T>(type, 80, 8, turned, 1);
        }
    }
}

} // namespace

int main() {
    if (UNALIGNED_ONLY) {
        convert_unaligned<F16>();
        convert_unaligned<BF16>();
        convert_unaligned<float>();
    } else {
        gather_all();
        convert_all<F16>();
        convert_all<BF16>();
        convert_all<float>();
    }
    std::puts("gather and conversion, quantized: ok");
}
