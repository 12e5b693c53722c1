// Attention of items of up to FKV_PREFILL_ROWS rows on simdgroup matrices: prompts, and
// the chunks of prompts against what is cached. The algorithm is FlashAttention-2's
// (arXiv:2307.08691).
#include "strip.h"

namespace fkv {

// The simdgroups share the tiles and have 8 rows each; the rows of different heads and
// queries of a group are packed, so that none of the 64 is idle for a lack of queries.
using Prefill =
    Walk<FKV_IN, FKV_OUT, FKV_KDIM, FKV_VDIM, FKV_KDIM <= 128 ? 32 : 16, 8, FKV_PREFILL_ROWS / STRIP_ROWS>;

} // namespace fkv

FKV_ATTEND_KERNEL(256, FKV_ATTEND_RESULTS) {
    threadgroup float4 shared[fkv::Prefill::SHARED / 16];
    fkv::Task task(FKV_CALL);
    if (!task.read(FKV_HERE, FKV_PREFILL_ROWS) || !task.writable()) return;
    fkv::Prefill::run(FKV_CALL, FKV_WRITES, task, FKV_HERE, shared);
}
