// Fill: memory is set to a repeated element; and the bits of one byte are copied, for elements
// of less than a byte.
#include "run.cuh"

namespace {

constexpr unsigned THREADS = 256;

// repeated is the low elem bytes of a pattern, again and again: what any 8 bytes hold
// that begin at a multiple of elem.
__device__ inline uint64_t repeated(uint64_t pattern, uint32_t elem) {
    for (uint32_t bytes = elem; bytes < 8; bytes *= 2) {
        pattern &= (uint64_t{1} << (8 * bytes)) - 1;
        pattern |= pattern << (8 * bytes);
    }
    return pattern;
}

// byte_at is byte i of repeated patterns.
__device__ inline unsigned char byte_at(uint64_t pattern, int64_t i) {
    return static_cast<unsigned char>(pattern >> (8 * (i % 8)));
}

} // namespace

// Grid: x over the bytes, 16 a thread; any grid is right.
FKV_KERNEL(fkv_fill, THREADS, 0, unsigned char *dst, fkv_fill_args args) {
    const uint64_t pattern = repeated(args.pattern, args.elem);
    const int64_t whole = args.last_mask == 0xff ? args.bytes : args.bytes - 1; // bytes that change wholly
    // Up to 15 bytes before the first 16 that are aligned, and after the last ones.
    const int64_t to_aligned = -reinterpret_cast<uintptr_t>(dst) & 15;
    const int64_t head = min(to_aligned, whole);
    const int64_t runs = (whole - head) / 16, tail = head + runs * 16;

    const int64_t thread = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
    const fkv::Run<uint64_t, 2> both{{pattern, pattern}};
    for (int64_t i = thread; i < runs; i += static_cast<int64_t>(gridDim.x) * THREADS) {
        fkv::store_run<2>(reinterpret_cast<uint64_t *>(dst + head) + 2 * i, both);
    }
    if (thread < head) {
        dst[thread] = byte_at(pattern, thread);
    }
    if (tail + thread < whole) {
        dst[tail + thread] = byte_at(pattern, tail + thread);
    }
    if (thread == 0 && whole < args.bytes) {
        const uint32_t set = byte_at(pattern, whole) & args.last_mask, kept = dst[whole] & ~args.last_mask;
        dst[whole] = static_cast<unsigned char>(set | kept);
    }
}

// Grid: one block.
FKV_KERNEL(fkv_copy_bits, 32, 0, unsigned char *dst, const unsigned char *src, fkv_copy_bits_args args) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *dst = static_cast<unsigned char>((*src & args.mask) | (*dst & ~args.mask));
    }
}
