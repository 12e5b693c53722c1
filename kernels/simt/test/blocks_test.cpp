// The kernels that copy and fill: gather, copy blocks, move slots, fill and copy bits.
// All of them are exact.
#include <deque>

#include "rig.h"

using namespace rig;

namespace {

template <class T> std::vector<T> shuffled(T n) {
    std::vector<T> order;
    for (T i = 0; i < n; i++) {
        order.push_back(i);
    }
    std::shuffle(order.begin(), order.end(), generator);
    return order;
}

struct Range {
    uint32_t block_size, dim;
    int64_t begin, len;
    bool table;
    size_t shift;
    uint32_t behind = 0; // elements of a row of the cache that are not gathered
};

template <class KV, class Out> void check_gather(const Range &r) {
    constexpr uint32_t heads = 3, blocks = 9;
    where = std::string("gather ") + type_name<KV> + " to " + type_name<Out> + ", " + std::to_string(r.len) +
            " tokens from " + std::to_string(r.begin) + " on, block of " + std::to_string(r.block_size);
    const size_t row_count = size_t{blocks} * heads * r.block_size;
    const uint32_t width = r.dim + r.behind;
    Memory<KV> cache(row_count * width, r.shift);
    cache.fill();
    const std::vector<KV> before = cache.copy();
    Memory<Out> out(static_cast<size_t>(heads * r.len) * r.dim, r.shift);
    std::vector<Out> want = out.copy();

    std::vector<uint32_t> order = shuffled(blocks);
    order[2] = blocks; // not one of the cache's: its tokens are left out
    order[4] = 0xffffffff;
    const size_t entries = static_cast<size_t>((r.begin + r.len + r.block_size - 1) / r.block_size);
    order.resize(entries);
    Memory<uint32_t> table(entries);
    table.set(order);
    fkv_gather_args args{};
    args.block = 5;
    args.begin = r.begin, args.len = r.len;
    args.blocks = blocks, args.kv_heads = heads, args.block_size = r.block_size, args.dim = r.dim, args.row = width;
    launch(std::string("fkv_gather_") + type_name<KV> + "_" + type_name<Out>, grid(),
           {cache.data(), r.table ? table.data() : nullptr, out.data()}, args);

    for (uint32_t head = 0; head < heads; head++) {
        for (int64_t i = 0; i < r.len; i++) {
            const int64_t position = r.begin + i;
            const uint32_t block = r.table ? order[static_cast<size_t>(position / r.block_size)] : args.block;
            for (uint32_t c = 0; c < r.dim && block < blocks; c++) {
                const size_t offset = static_cast<size_t>(position % r.block_size);
                const size_t row = (size_t{block} * heads + head) * r.block_size + offset;
                want[static_cast<size_t>(head * r.len + i) * r.dim + c] = rounded<Out>(value(before[row * width + c]));
            }
        }
    }
    out.expect(want, "what was gathered");
    cache.expect(before, "the cache");
}

template <class KV, class Out> void gather_all() {
    const Range ranges[] = {
        {8, 64, 0, 45, true, 0},  {16, 80, 13, 71, true, 0},  {8, 192, 31, 1, true, 0}, {8, 128, 8, 0, true, 0},
        {64, 64, 3, 97, true, 0}, {61, 256, 2, 50, false, 0}, {8, 12, 5, 40, true, 0},  {16, 64, 1, 33, true, 1},
        {16, 512, 3, 40, true, 0, 64}, {8, 12, 5, 40, true, 0, 3},
    };
    for (const Range &r : ranges) {
        check_gather<KV, Out>(r);
    }
}

// Planes are the two planes of a cache as bytes, noise at first, and what they ought to
// be.
struct Planes {
    Memory<unsigned char> k, v;
    std::vector<unsigned char> want_k, want_v;

    Planes(size_t k_bytes, size_t v_bytes) : k(k_bytes), v(v_bytes) {
        for (Memory<unsigned char> *plane : {&k, &v}) {
            for (size_t i = 0; i < plane->size(); i++) {
                (*plane)[i] = static_cast<unsigned char>(generator());
            }
        }
        want_k = k.copy(), want_v = v.copy();
    }
    void expect() const {
        k.expect(want_k, "the keys");
        v.expect(want_v, "the values");
    }
};

// copy_row copies one row of bytes within a plane.
void copy_row(std::vector<unsigned char> &plane, size_t from, size_t to, size_t bytes) {
    std::memmove(&plane[to * bytes], &plane[from * bytes], bytes);
}

// variant is the ending of the kernel for rows of so many bytes.
std::string variant(size_t k_bytes, size_t v_bytes) { return (k_bytes | v_bytes) % 16 == 0 && v_bytes != 0 ? "" : "_narrow"; }

// copy_blocks_between copies blocks of one cache to another, or within one where both are the same.
void copy_blocks_between(Planes &from, uint32_t from_blocks, Planes &to, uint32_t to_blocks, const std::vector<uint32_t> &pairs,
                         size_t k_bytes, size_t v_bytes) {
    Memory<uint32_t> list(pairs.size());
    list.set(pairs);
    fkv_copy_blocks_args args{};
    args.pairs = static_cast<uint32_t>(pairs.size() / 2);
    args.k_bytes = static_cast<int64_t>(k_bytes), args.v_bytes = static_cast<int64_t>(v_bytes);
    args.from_blocks = from_blocks, args.to_blocks = to_blocks;
    launch("fkv_copy_blocks" + variant(k_bytes, v_bytes), grid(),
           {from.k.data(), from.v.data(), to.k.data(), to.v.data(), list.data()}, args);
    for (size_t i = 0; i < pairs.size(); i += 2) {
        if (pairs[i] < from_blocks && pairs[i + 1] < to_blocks) {
            std::memmove(&to.want_k[pairs[i + 1] * k_bytes], &from.want_k[pairs[i] * k_bytes], k_bytes);
            std::memmove(to.want_v.data() + pairs[i + 1] * v_bytes, from.want_v.data() + pairs[i] * v_bytes, v_bytes);
        }
    }
    from.expect();
    to.expect();
}

void check_copy_blocks(size_t k_bytes, size_t v_bytes) {
    where = "copy blocks of " + std::to_string(k_bytes) + " and " + std::to_string(v_bytes) + " bytes";
    constexpr uint32_t blocks = 12, fewer = 7;
    Planes planes(blocks * k_bytes, blocks * v_bytes), other(fewer * k_bytes, fewer * v_bytes);
    const std::vector<uint32_t> pairs = {0, 5, 3, 2, blocks, 7, 0,  4,          1,  blocks, 0xffffffff,
                                         8, 6, 6, 1, 0x7fffffff, 11, 10};
    copy_blocks_between(planes, blocks, planes, blocks, pairs, k_bytes, v_bytes);
    where += ", to another cache"; // in which some of the destinations are the numbers of sources
    copy_blocks_between(planes, blocks, other, fewer, {0, 3, 3, 0, 11, 6, 5, fewer, blocks, 1, 2, 2}, k_bytes, v_bytes);
    copy_blocks_between(other, fewer, planes, blocks, {0, 11, fewer, 5, 6, 0, 3, blocks, 8, 8}, k_bytes, v_bytes);
}

// check_stage stages bytes [begin, begin + count) of a list of blocks of planes of some sizes, whose memory begins shift bytes
// behind a multiple of 16, and brings others back.
void check_stage(const std::vector<int64_t> &sizes, size_t shift, const std::vector<uint32_t> &list, int64_t begin, int64_t count) {
    constexpr uint32_t blocks = 6;
    where = "stage " + std::to_string(count) + " bytes from " + std::to_string(begin) + " on, of " + std::to_string(sizes.size()) +
            " planes that are " + std::to_string(shift) + " bytes off";
    std::deque<Memory<unsigned char>> planes; // which do not move
    std::vector<std::vector<unsigned char>> want;
    std::vector<int64_t> table;
    int64_t block_bytes = 0;
    for (int64_t bytes : sizes) {
        planes.emplace_back(static_cast<size_t>(bytes) * blocks, shift);
        for (size_t i = 0; i < planes.back().size(); i++) planes.back()[i] = static_cast<unsigned char>(generator());
        want.push_back(planes.back().copy());
        table.insert(table.end(), {static_cast<int64_t>(reinterpret_cast<uintptr_t>(planes.back().data())), bytes, block_bytes});
        block_bytes += bytes;
    }
    Memory<int64_t> places(table.size());
    places.set(table);
    Memory<uint32_t> ids(list.size());
    ids.set(list);
    Memory<unsigned char> staging(static_cast<size_t>(count));
    std::vector<unsigned char> staged = staging.copy();
    fkv_stage_blocks_args args{};
    args.block_bytes = block_bytes, args.begin = begin, args.bytes = count;
    args.planes = static_cast<uint32_t>(sizes.size()), args.listed = static_cast<uint32_t>(list.size()), args.blocks = blocks;
    // each gives f the place in a plane of every byte that is staged.
    const auto each = [&](auto f) {
        for (int64_t i = 0; i < count; i++) {
            const uint32_t id = list[static_cast<size_t>((begin + i) / block_bytes)];
            int64_t at = (begin + i) % block_bytes;
            size_t plane = 0;
            while (at >= sizes[plane]) at -= sizes[plane++];
            if (id < blocks) f(static_cast<size_t>(i), plane, static_cast<size_t>(id * sizes[plane] + at));
        }
    };
    const auto expect = [&] {
        staging.expect(staged, "what is staged");
        for (size_t i = 0; i < planes.size(); i++) planes[i].expect(want[i], "a plane");
    };
    each([&](size_t i, size_t plane, size_t at) { staged[i] = want[plane][at]; });
    launch("fkv_stage_blocks", grid(), {places.data(), ids.data(), staging.data()}, args);
    expect();
    for (unsigned char &byte : staged) byte = static_cast<unsigned char>(generator());
    staging.set(staged);
    each([&](size_t i, size_t plane, size_t at) { want[plane][at] = staged[i]; });
    args.flags = FKV_UNSTAGE;
    where += ", and back";
    launch("fkv_stage_blocks", grid(), {places.data(), ids.data(), staging.data()}, args);
    expect();
}

void stage_all() {
    for (size_t shift : {0, 4, 1, 15}) {
        check_stage({64}, shift, {3}, 0, 64);
        check_stage({64, 48, 16}, shift, {3, 0, 5}, 0, 3 * 128);
        check_stage({64, 4, 64, 4}, shift, {4, 1, 2}, 0, 3 * 136);
        check_stage({24, 6, 1, 40, 17}, shift, {5, 0, 1, 2, 4}, 0, 5 * 88);
        check_stage({24, 6, 1, 40, 17}, shift, {5, 0, 1}, 80, 112); // from within a block to within another
        check_stage({24, 6, 1, 40, 17}, shift, {5, 0}, 25, 1);
        check_stage({24, 6, 1, 40, 17}, shift, {5, 6, 0xffffffff, 1}, 7, 4 * 88 - 9); // blocks outside
        check_stage({70000, 16}, shift, {1, 4}, 16, 2 * 70016 - 48);
        check_stage({33, 70001}, shift, {2}, 32, 70001);
    }
}

using Pairs = std::vector<int64_t>; // source, destination, source, …

constexpr int64_t SLOTS = 320;

void check_move_slots(const std::string &name, const Pairs &pairs, uint32_t k_bytes = 128, uint32_t v_bytes = 48) {
    where = "move slots, " + name;
    constexpr uint32_t heads = 3, block_size = 16;
    Planes planes(SLOTS * heads * k_bytes, SLOTS * heads * v_bytes);
    Memory<int64_t> list(pairs.size());
    list.set(pairs);
    fkv_move_slots_args args{};
    args.kv_heads = heads, args.block_size = block_size, args.k_bytes = k_bytes, args.v_bytes = v_bytes;
    args.pairs = static_cast<int64_t>(pairs.size() / 2), args.slots = SLOTS;
    launch("fkv_move_slots" + variant(k_bytes, v_bytes), line(), {planes.k.data(), planes.v.data(), list.data()}, args);
    const auto row = [&](int64_t slot, uint32_t head) {
        return static_cast<size_t>((slot / block_size * heads + head) * block_size + slot % block_size);
    };
    for (size_t i = 0; i < pairs.size(); i += 2) {
        const int64_t from = pairs[i], to = pairs[i + 1];
        for (uint32_t head = 0; head < heads && from >= 0 && from < SLOTS && to >= 0 && to < SLOTS; head++) {
            copy_row(planes.want_k, row(from, head), row(to, head), k_bytes);
            copy_row(planes.want_v, row(from, head), row(to, head), v_bytes);
        }
    }
    planes.expect();
}

void move_all() {
    check_move_slots("none", {});
    check_move_slots("one", {5, 40});
    check_move_slots("to itself", {9, 9});
    check_move_slots("a chain that carries one slot along", {1, 2, 2, 3, 3, 4, 4, 40});
    check_move_slots("a swap over a third slot", {7, 30, 20, 7, 30, 20});
    check_move_slots("one source, many destinations", {7, 1, 7, 2, 7, 47});
    check_move_slots("one destination, many sources", {1, 9, 2, 9, 3, 9});
    check_move_slots("slots outside", {-1, 3, SLOTS, 4, 5, -1, 6, SLOTS, std::numeric_limits<int64_t>::min(), 7,
                                       std::numeric_limits<int64_t>::max(), 8, int64_t{1} << 32, 9, 10, 11});
    for (uint32_t v_bytes : {0u, 4u, 12u, 40u}) { // one plane, words, short rows of codes
        check_move_slots("narrow chain", {1, 2, 2, 3, 3, 4, 4, 40}, 4, v_bytes);
        check_move_slots("narrow, slots outside", {-1, 3, SLOTS, 4, 5, -1, 6, SLOTS, 10, 11}, 40, v_bytes);
    }
    check_move_slots("slots outside, falling", {-1, 9, -2, 8});
    check_move_slots("slots outside, rising", {SLOTS, 8, SLOTS + 1, 9});
    check_move_slots("into slots outside, falling", {9, SLOTS + 1, 8, SLOTS});
    check_move_slots("into slots outside, rising", {9, -2, 10, -1});
    for (int64_t n : {127, 128, 129, 300}) { // about the pairs of a batch
        Pairs down, up, carried;
        for (int64_t i = 0; i < n; i++) {
            down.insert(down.end(), {i + 1 + (i > n / 2 ? 3 : 0), i});
            up.insert(up.end(), {n - 1 - i, n + 1 - i});
            carried.insert(carried.end(), {i, i + 1});
        }
        check_move_slots("gaps closed by " + std::to_string(n), down);
        check_move_slots("gaps opened by " + std::to_string(n), up);
        check_move_slots("one carried over " + std::to_string(n), carried);
        check_move_slots("narrow, gaps closed by " + std::to_string(n), down, 12, 4);
        Pairs twice = down;
        twice.insert(twice.end(), down.begin(), down.end());
        check_move_slots("gaps closed twice by " + std::to_string(n), twice);
        down[2 * 100 + 1] = down[2 * 100 - 1]; // a destination twice, in an order that else is good
        check_move_slots("a destination twice in " + std::to_string(n), down, 512, 16);
    }
    for (int round = 0; round < 20; round++) {
        Pairs pairs(static_cast<size_t>(2 * below(400)));
        const int64_t range = round % 2 ? 20 : SLOTS;
        for (int64_t &slot : pairs) {
            slot = below(50) ? below(range) : -1;
        }
        check_move_slots("at random", pairs);
    }
}

void check_fill(uint32_t elem, size_t offset, size_t bytes, uint32_t last_mask) {
    where = "fill " + std::to_string(bytes) + " bytes at " + std::to_string(offset) + " with elements of " +
            std::to_string(elem);
    Memory<unsigned char> memory(offset + bytes + 5);
    for (size_t i = 0; i < memory.size(); i++) {
        memory[i] = static_cast<unsigned char>(generator());
    }
    std::vector<unsigned char> want = memory.copy();
    fkv_fill_args args{};
    args.last_mask = last_mask, args.pattern = generator(), args.bytes = static_cast<int64_t>(bytes), args.elem = elem;
    launch("fkv_fill", line(), {memory.data() + offset}, args);
    for (size_t i = 0; i < bytes; i++) {
        const auto mask = static_cast<unsigned char>(i + 1 == bytes ? last_mask : 0xff);
        const auto byte = static_cast<unsigned char>(args.pattern >> (8 * (i % elem)));
        want[offset + i] = static_cast<unsigned char>((byte & mask) | (want[offset + i] & ~mask));
    }
    memory.expect(want, "the memory");
}

void fill_all() {
    for (uint32_t elem : {1, 2, 4, 8}) {
        for (size_t offset = 0; offset <= 16; offset += elem) {
            for (size_t n : {0, 1, 2, 3, 4, 7, 9, 500}) {
                check_fill(elem, offset, n * elem, 0xff);
            }
        }
    }
    for (size_t bytes : {1, 2, 15, 16, 17, 33, 100}) {
        check_fill(1, 3, bytes, 0x0f);
        check_fill(1, 0, bytes, 0x0f);
    }
    check_fill(2, 6, 300000, 0xff);
}

void check_copy_bits() {
    where = "copy bits";
    for (uint32_t mask : {0x0f, 0xf0, 0x00, 0xff, 0x5a}) {
        Memory<unsigned char> from(3), to(3);
        from[1] = 0x6c, to[1] = 0x93;
        fkv_copy_bits_args args{};
        args.mask = mask;
        launch("fkv_copy_bits", line(), {&to[1], &from[1]}, args);
        to.expect({0xff, static_cast<unsigned char>((0x6c & mask) | (0x93 & ~mask)), 0xff}, "the byte");
    }
}

#ifdef FKV_METAL // CUDA's driver copies by itself
void check_copy(size_t bytes, size_t from_shift, size_t to_shift) {
    where = "copy " + std::to_string(bytes) + " bytes from " + std::to_string(from_shift) + " to " +
            std::to_string(to_shift);
    Memory<unsigned char> from(bytes, from_shift), to(bytes, to_shift);
    for (size_t i = 0; i < bytes; i++) {
        from[i] = static_cast<unsigned char>(generator());
    }
    const std::vector<unsigned char> before = from.copy();
    fkv_copy_args args{};
    args.bytes = static_cast<int64_t>(bytes);
    launch("fkv_copy", line(), {to.data(), from.data()}, args);
    to.expect(before, "the copy");
    from.expect(before, "the source");
}
#endif

} // namespace

int main() {
    gather_all<F16, F16>();
    gather_all<BF16, BF16>();
    gather_all<float, float>();
    gather_all<F16, float>();
    gather_all<BF16, float>();
    check_copy_blocks(16, 16);
    check_copy_blocks(4096, 1536);
    check_copy_blocks(40000, 16);
    check_copy_blocks(4, 0);
    check_copy_blocks(40, 12);
    check_copy_blocks(40004, 16);
#ifndef FKV_METAL // whose devices have the host's memory
    stage_all();
#endif
    move_all();
    fill_all();
    check_copy_bits();
#ifdef FKV_METAL
    for (size_t bytes : {0, 1, 15, 16, 17, 5000, 70000, 70003}) {
        check_copy(bytes, 0, 0);
        check_copy(bytes, 3, 0);
        check_copy(bytes, 8, 5);
    }
#endif
    std::puts("gather, copies and fills: ok");
}
