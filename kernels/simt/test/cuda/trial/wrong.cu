// A variant that must not be chosen, for the test of the experiment pack (backend/cuda, TestPackOnTheStandIn), in place of
// attend_wide.cu: the kernel of warpgroups without a wait for its products.
#include "hopper.cuh"
#include "strip.cuh"

namespace fkv {
template <int PENDING> inline void forgotten_wait() {}
} // namespace fkv

#define Wide WideWithoutWaits
#define wgmma_wait forgotten_wait
#include "../../../../cuda/variants/wide/attend_wide.cuh"

using WithoutWaits = fkv::WideWithoutWaits<fkv::bf16, 128, 128, true, true>;
FKV_WIDE_KERNEL(trial_wrong, WithoutWaits)
