// Attention of items of at most FKV_DECODE_ROWS rows on simdgroup matrices: one query of
// a larger group, or a few queries.
#include "strip.h"

namespace fkv {

// Four simdgroups divide each tile of 32 keys; with more than 8 rows two of them have one
// strip of rows and two the other, so that no product is spent on rows that are not there.
template <int STRIPS> using Decode = Walk<FKV_IN, FKV_OUT, FKV_KDIM, FKV_VDIM, 32, 4, STRIPS>;
static_assert(FKV_DECODE_ROWS == 2 * STRIP_ROWS, "one strip or two");

} // namespace fkv

FKV_ATTEND_KERNEL(128, FKV_ATTEND_RESULTS) {
    threadgroup float4 shared[fkv::Decode<2>::SHARED / 16];
    static_assert(int(fkv::Decode<1>::SHARED) <= int(fkv::Decode<2>::SHARED), "room for both");
    fkv::Task task(FKV_CALL);
    if (!task.read(FKV_HERE, FKV_DECODE_ROWS) || !task.writable()) return;
    if (task.item.rows <= fkv::STRIP_ROWS) {
        fkv::Decode<1>::run(FKV_CALL, FKV_WRITES, task, FKV_HERE, shared);
    } else {
        fkv::Decode<2>::run(FKV_CALL, FKV_WRITES, task, FKV_HERE, shared);
    }
}
