// Fill and copy: memory is set to a repeated element or to other memory; and the bits of
// one byte are copied, for elements of less than a byte. No kernel can look at an address,
// so the host says by wide that all of them are aligned to 16 bytes.
#include "run.h"

namespace {

constant constexpr uint THREADS = 256;

// Share is which of many units a thread works on: first, first+step and so on.
struct Share {
    int64_t first, step;
};

inline Share share_of(fkv::Here here) {
    return Share{static_cast<int64_t>(here.group.x) * THREADS + here.index,
                 static_cast<int64_t>(here.groups.x) * THREADS};
}

// repeated is the low elem bytes of a pattern, again and again: what any 8 bytes hold
// that begin at a multiple of elem.
inline uint64_t repeated(uint64_t pattern, uint32_t elem) {
    for (uint32_t bytes = elem; bytes < 8; bytes *= 2) {
        pattern &= (static_cast<uint64_t>(1) << (8 * bytes)) - 1;
        pattern |= pattern << (8 * bytes);
    }
    return pattern;
}

// byte_at is byte i of repeated patterns.
inline uchar byte_at(uint64_t pattern, int64_t i) { return static_cast<uchar>(pattern >> (8 * (i % 8))); }

// fill sets bytes bytes to a pattern, which unit is too, in whole units and single
// bytes behind them.
template <class T> inline void fill(device uchar *dst, int64_t bytes, T unit, uint64_t pattern, Share share) {
    const int64_t units = bytes / static_cast<int64_t>(sizeof(T)), tail = units * static_cast<int64_t>(sizeof(T));
    device T *to = reinterpret_cast<device T *>(dst);
    for (int64_t i = share.first; i < units; i += share.step) {
        to[i] = unit;
    }
    if (tail + share.first < bytes) { // fewer than a threadgroup has threads
        dst[tail + share.first] = byte_at(pattern, tail + share.first);
    }
}

} // namespace

// Grid: x over the bytes, 16 a thread; any grid is right. Without wide, a unit is an element.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
fkv_fill(device uchar *dst [[buffer(FKV_FILL_DST)]],
         constant fkv_fill_args &args [[buffer(FKV_FILL_BUFFERS)]],
         FKV_BUILTINS) {
    const Share share = share_of(FKV_HERE);
    const uint64_t pattern = repeated(args.pattern, args.elem);
    const int64_t whole = args.last_mask == 0xff ? args.bytes : args.bytes - 1; // bytes that change wholly
    if (wide) {
        const uint2 eight = as_type<uint2>(pattern);
        fill(dst, whole, uint4(eight, eight), pattern, share);
    } else if (args.elem == 8) {
        fill(dst, whole, pattern, pattern, share);
    } else if (args.elem == 4) {
        fill(dst, whole, static_cast<uint32_t>(pattern), pattern, share);
    } else if (args.elem == 2) {
        fill(dst, whole, static_cast<uint16_t>(pattern), pattern, share);
    } else {
        fill(dst, whole, static_cast<uint8_t>(pattern), pattern, share);
    }
    if (share.first == 0 && whole < args.bytes) {
        const uint32_t set = byte_at(pattern, whole) & args.last_mask, kept = dst[whole] & ~args.last_mask;
        dst[whole] = static_cast<uchar>(set | kept);
    }
}

// Grid: x over the bytes, 16 a thread with wide and else one; any grid is right.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
fkv_copy(device uchar *dst [[buffer(FKV_COPY_DST)]],
         const device uchar *src [[buffer(FKV_COPY_SRC)]],
         constant fkv_copy_args &args [[buffer(FKV_COPY_BUFFERS)]],
         FKV_BUILTINS) {
    const Share share = share_of(FKV_HERE);
    const int64_t runs = wide ? args.bytes / 16 : 0, rest = runs * 16;
    fkv::copy_all(reinterpret_cast<const device uint4 *>(src), reinterpret_cast<device uint4 *>(dst), runs,
                  share.first, share.step);
    fkv::copy_all(src + rest, dst + rest, args.bytes - rest, share.first, share.step);
}

// Grid: one threadgroup.
[[max_total_threads_per_threadgroup(32)]] kernel void
fkv_copy_bits(device uchar *dst [[buffer(FKV_COPY_BITS_DST)]],
              const device uchar *src [[buffer(FKV_COPY_BITS_SRC)]],
              constant fkv_copy_bits_args &args [[buffer(FKV_COPY_BITS_BUFFERS)]],
              FKV_BUILTINS) {
    const fkv::Here here = FKV_HERE;
    if (here.group.x == 0 && here.index == 0) {
        *dst = static_cast<uchar>((*src & args.mask) | (*dst & ~args.mask));
    }
}
