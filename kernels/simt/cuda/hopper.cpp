// What is under way in a block of 9.0a: products of warpgroups, and copies that barriers count.
#include "hopper.h"

#include "../core/sanitizers.h"

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

namespace simt {

namespace {

float widen(uint16_t bits, bool bf16) { return bf16 ? __bfloat162float(__nv_bfloat16{bits}) : __half2float(__half{bits}); }

// at is a byte of shared memory, as tiles have it: pieces of 16 bytes change places by bits 7 to 9 of the address.
unsigned char *at(unsigned char *shared, uint32_t address) {
    address ^= (address >> 7 & 7) << 4;
    return shared + address - (reinterpret_cast<uintptr_t>(shared) & 1023);
}

// place is an element of a matrix that a descriptor says where to find.
unsigned char *place(unsigned char *shared, uint64_t tile, unsigned row, unsigned k, bool transposed) {
    const uint32_t start = uint32_t(tile & 0x3fff) << 4, leading = uint32_t(tile >> 16 & 0x3fff) << 4, stride = uint32_t(tile >> 32 & 0x3fff) << 4;
    const uint32_t offset = transposed ? row / 64 * leading + row % 64 * 2 + k / 8 * stride + k % 8 * 128 : row / 8 * stride + row % 8 * 128 + k * 2;
    return at(shared, start + offset);
}

uint16_t element(unsigned char *shared, uint64_t tile, unsigned row, unsigned k, bool transposed) {
    uint16_t bits;
    std::memcpy(&bits, place(shared, tile, row, k, transposed), sizeof bits);
    return bits;
}

struct Shadow {
    std::vector<float> d; // [128][n/2]
    std::vector<float *> to;
    unsigned under_way = 0;
};

struct Op {
    std::vector<Group> lanes;
    Shadow *shadow;
    unsigned group;
    bool done;
};

struct Products {
    std::deque<Op> ops;
    unsigned closed = 0; // groups
    bool fenced = false; // since registers were given back
    std::map<float *, Shadow> shadows;
};

thread_local Products products[GROUPS];

// proper reports whether a descriptor is of a matrix of that many rows, swizzled by 128 bytes, in the block's shared memory.
bool proper(uint64_t tile, unsigned rows, bool transposed) {
    constexpr uint64_t fields = 0x3fff | uint64_t(0x3fff) << 16 | uint64_t(0x3fff) << 32, swizzled = uint64_t(1) << 62;
    unsigned char *shared = current->around->shared;
    const unsigned char *first = shared - (reinterpret_cast<uintptr_t>(shared) & 1023);
    const unsigned char *last = place(shared, tile, rows - 1, 15, transposed);
    return (tile & ~fields) == swizzled && first + ((tile & 0x3fff) << 4) >= shared && last < shared + current->around->shared_size;
}

void compute(Op &op) {
    if (op.done) return;
    op.done = true;
    const Group &g = op.lanes[0];
    const unsigned n = g.n;
    static thread_local double b[16][256], sum[256]; // too much for the stack of a fiber
    for (unsigned k = 0; k < 16; k++)
        for (unsigned c = 0; c < n; c++)
            b[k][c] = widen(element(g.shared, g.b_tile, c, k, g.transposed), g.bf16);
    for (unsigned row = 0; row < 64; row++) {
        double a[16];
        for (unsigned k = 0; k < 16; k++) {
            if (g.a) {
                const Group &lane = op.lanes[row / 16 * 32 + row % 8 * 4 + k % 8 / 2];
                a[k] = widen(uint16_t(lane.a[row / 8 % 2 + k / 8 * 2] >> k % 2 * 16), g.bf16);
            } else {
                a[k] = widen(element(g.shared, g.a_tile, row, k, false), g.bf16);
            }
        }
        std::fill_n(sum, n, 0);
        for (unsigned k = 0; k < 16; k++)
            for (unsigned c = 0; c < n; c++) sum[c] += a[k] * b[k][c];
        for (unsigned c = 0; c < n; c++) {
            const unsigned thread = row / 16 * 32 + row % 8 * 4 + c % 8 / 2;
            float &d = op.shadow->d[thread * (n / 2) + c / 8 * 4 + row / 8 % 2 * 2 + c % 2];
            d = float((g.more ? d : 0) + sum[c]);
        }
    }
}

// Landing is what is under way for a barrier. Maps are parameters of the kernel: a thread's own ends with it.
struct Landing {
    enum Kind { BOX, COPY, ARRIVAL } kind;
    Copy copy;
    void *to;
    int column, row;
    TensorMap map;
};

thread_local std::map<Barrier *, std::deque<Landing>> landings;

} // namespace

void read_operands(const Group &g, unsigned thread) {
    if (!TSAN) return;
    const auto share = [&](uint64_t tile, unsigned rows, bool transposed) {
        for (unsigned i = thread; i < 2 * rows; i += 128) { // pieces of 8 elements: along k, or of a column of it
            const unsigned row = transposed ? i % (rows / 8) * 8 : i / 2, k = transposed ? i / (rows / 8) : i % 2 * 8;
            seen_read(place(g.shared, tile, row, k, transposed), 16);
        }
    };
    if (!g.a) share(g.a_tile, 64, false);
    share(g.b_tile, g.n, g.transposed);
}

void begin_product(void *const *lanes, unsigned) {
    Unseen unseen;
    Products &of = products[group_of()];
    const Group &first = *static_cast<Group *>(lanes[0]);
    Shadow &shadow = of.shadows[first.d];
    const unsigned each = first.n / 2;
    Op op{{}, &shadow, of.closed, false};
    for (unsigned l = 0; l < 128; l++) op.lanes.push_back(*static_cast<Group *>(lanes[l]));
    if (!proper(first.b_tile, first.n, first.transposed) || (first.a == nullptr && !proper(first.a_tile, 64, false)))
        fault("describes a matrix that is not swizzled by 128 bytes, or lies outside shared memory", {});
    for (const Group &g : op.lanes)
        if (g.b_tile != first.b_tile || g.a_tile != first.a_tile || g.more != first.more) fault("describes other matrices than the rest of its warpgroup", {});
    if (shadow.under_way++ == 0) {
        if (!of.fenced) fault("multiplies into registers without a fence", {});
        shadow.d.assign(128 * each, 0);
        shadow.to.assign(128, nullptr);
        for (unsigned l = 0; l < 128; l++) {
            shadow.to[l] = op.lanes[l].d;
            std::memcpy(&shadow.d[l * each], op.lanes[l].d, each * 4);
            std::memset(op.lanes[l].d, 0xff, each * 4);
        }
    }
    of.ops.push_back(std::move(op));
    if (!first.late) compute(of.ops.back());
}

void fence_products(void *const *, unsigned) { products[group_of()].fenced = true; }

void commit_products(void *const *, unsigned) { products[group_of()].closed++; }

void retire(unsigned group, unsigned pending) {
    Unseen unseen;
    Products &of = products[group];
    while (!of.ops.empty() && of.ops.front().group + pending < of.closed) {
        Op &op = of.ops.front();
        compute(op);
        if (--op.shadow->under_way == 0) {
            const unsigned each = op.lanes[0].n / 2;
            for (unsigned l = 0; l < 128; l++) std::memcpy(op.shadow->to[l], &op.shadow->d[l * each], each * 4);
        }
        of.ops.pop_front();
        of.fenced = false;
    }
}

void begin(Barrier *b, uint32_t count) {
    Unseen unseen;
    *b = {uint16_t(count), uint16_t(count), 0, 0};
    const auto under_way = landings.find(b);
    if (under_way != landings.end() && !under_way->second.empty()) fault("begins a barrier that copies are under way for", {});
}

namespace {

// A block begins with nothing under way, and leaves nothing.
void forget() {
    Unseen unseen;
    landings.clear();
    for (Products &of : products) of = {};
}

const char *left() {
    Unseen unseen;
    for (const Products &of : products)
        if (!of.ops.empty()) return "returned while products were under way";
    for (const auto &[barrier, queue] : landings)
        if (!queue.empty()) return "returned while copies for a barrier were under way";
    return nullptr;
}

const bool kept = (dialect = {&forget, &left}, true);

// For the race check a barrier's own bytes are clocks: of its turns, by parity, and of what is under way.
char *clock_of(Barrier *b, unsigned which) { return reinterpret_cast<char *>(b) + which; }
constexpr unsigned UNDER_WAY = 2;

void put_off(Barrier *b, const Landing &landing) {
    release(clock_of(b, UNDER_WAY));
    {
        Unseen unseen;
        landings[b].push_back(landing);
    }
    wake();
}

} // namespace

void later(Barrier *b, void *to, const TensorMap *map, int column, int row) { put_off(b, {Landing::BOX, {}, to, column, row, *map}); }
void later(Barrier *b, Copy copy) { put_off(b, {Landing::COPY, copy, nullptr, 0, 0, {}}); }
void later_arrive(Barrier *b) { put_off(b, {Landing::ARRIVAL, {}, nullptr, 0, 0, {}}); }

bool turned(Barrier *b, uint32_t parity) {
    if (b->phase == parity) return false;
    acquire(clock_of(b, parity));
    return true;
}

void expect(Barrier *b, uint32_t bytes) {
    b->blocks16 += int16_t(bytes / 16);
    arrive(b, 0);
}

void arrive(Barrier *b, int blocks16) {
    release(clock_of(b, b->phase & 1));
    if (blocks16 == 0) b->missing--;
    b->blocks16 -= int16_t(blocks16);
    if (b->missing == 0 && b->blocks16 == 0) {
        b->missing = b->count;
        b->phase ^= 1;
        wake();
        for (int i = 0; i < 300; i++) yield(); // whoever waited may be faster than what this thread does next
    }
}

bool land_one(Barrier *b) {
    Landing of;
    {
        Unseen unseen;
        auto &queue = landings[b];
        if (queue.empty()) return false;
        of = queue.front();
        queue.pop_front();
    }
    acquire(clock_of(b, UNDER_WAY));
    switch (of.kind) {
    case Landing::BOX:
        seen_write(of.to, 64 * 16 * 2);
        for (int r = 0; r < 16; r++)
            for (int c = 0; c < 64; c++) {
                uint16_t bits = 0;
                const int64_t row = int64_t(of.row) + r, column = of.column + c;
                if (row >= 0 && uint64_t(row) < of.map.rows && uint64_t(column) < of.map.columns)
                    std::memcpy(&bits, of.map.base + row * of.map.pitch + column * 2, 2);
                uintptr_t p = reinterpret_cast<uintptr_t>(of.to) + r * 128 + c * 2;
                p ^= (p >> 7 & 7) << 4;
                std::memcpy(reinterpret_cast<void *>(p), &bits, 2);
            }
        arrive(b, 64 * 16 * 2 / 16);
        break;
    case Landing::ARRIVAL:
        arrive(b, 0);
        break;
    case Landing::COPY:
        seen_write(of.copy.to, of.copy.bytes);
        fkv::land(of.copy);
    }
    return true;
}

} // namespace simt
