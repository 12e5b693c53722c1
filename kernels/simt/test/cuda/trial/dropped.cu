// Variants that must not be chosen, for the test of the experiment pack (backend/cuda, TestPackOnTheStandIn), in place of
// attend_wide.cu.
#include <unistd.h>

#include "../../../../cuda/variants/wide/attend_wide.cuh"

namespace {

struct Launch {
    static constexpr int THREADS = 384, BLOCKS = 1, SHARED = 0;
};

// Illegal writes where no memory is.
struct Illegal : Launch {
    static void run(const fkv::Operands &, const fkv_attend_args &args, const fkv::TensorMaps &) {
        *reinterpret_cast<volatile float *>(uintptr_t(args.size)) = 1;
    }
};

// Endless does not return.
struct Endless : Launch {
    static void run(const fkv::Operands &, const fkv_attend_args &, const fkv::TensorMaps &) {
        while (true) pause();
    }
};

// Slow computes the same several times.
template <class Kernel> struct Slow : Launch {
    static constexpr int SHARED = Kernel::SHARED;
    static void run(const fkv::Operands &at, const fkv_attend_args &args, const fkv::TensorMaps &maps) {
        for (int i = 0; i < 6; i++) {
            Kernel::run(at, args, maps);
            __syncthreads();
        }
    }
};

} // namespace

using Again = Slow<fkv::Wide<fkv::bf16, 128, 128, true, true>>;
FKV_WIDE_KERNEL(trial_illegal, Illegal)
FKV_WIDE_KERNEL(trial_endless, Endless)
FKV_WIDE_KERNEL(trial_slow, Again)
