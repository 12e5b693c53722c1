// The detectors find the bugs of planted/ in CUDA's words and nothing in their correct twins.
#include "../planted_rig.h"

namespace {

using namespace planted;

const Bug BUGS[] = {
    {"load", WRONG, nullptr, RACE, "barrier.cu"},
    {"reuse", WRONG, nullptr, RACE, "barrier.cu"},
    {"lockstep", WRONG, nullptr, RACE, "warp.cu"},
    {"overlap", nullptr, nullptr, RACE, "grid.cu"},
    {"wait", WRONG, WRONG, nullptr, nullptr},
    {"count", WRONG, WRONG, nullptr, nullptr},
    {"misaligned", "not a multiple of 16", "not a multiple of 16", "not a multiple of 16", "copy.cu"},
    {"global", CRASH, HEAP, nullptr, nullptr},
    {"dynamic", CRASH, "AddressSanitizer: SEGV", nullptr, nullptr},
    {"slack", "dynamic shared memory", POISONED, nullptr, nullptr},
    {"fixed", nullptr, BOUNDS, nullptr, "bounds.cu"},
    {"branch", "wait at the barrier", "wait at the barrier", "wait at the barrier", "divergence.cu"},
    {"early", "1 have returned", "1 have returned", "1 have returned", "divergence.cu"},
};

int child(const char *name) {
    const simt::Kernel *kernel = simt::find(name);
    if (!kernel) {
        fprintf(stderr, "no kernel %s\n", name);
        return EXIT_FAILURE;
    }
    return passes([&](float *in, float *out, simt::Options options, char *report, size_t size) {
        void *params[] = {&in, &out};
        return simt::run({kernel, {BLOCKS}, {THREADS}, kernel->shared, params}, options, report, size);
    });
}

} // namespace

int main(int argc, char **argv) { return argc == 2 ? child(argv[1]) : check_all(BUGS, "kernels/simt/test/cuda/planted/"); }
