// The core of the emulator: runs a kernel, compiled as C++, block by block, each GPU
// thread a fiber. It knows neither CUDA nor Metal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simt {

struct Dim { unsigned x = 1, y = 1, z = 1; };

// Kernel is one entry point. Kernel files register theirs when they are loaded.
struct Kernel {
    const char *name;
    unsigned threads, shared;          // launch shape as its source declares it
    const size_t *sizes; size_t count; // of its parameters
    void (*call)(void *const *params); // runs one thread of one block
};

void add(const Kernel &kernel);
const Kernel *find(const char *name);
size_t kernels(const Kernel **first); // all of them, in a fixed order

struct Launch {
    const Kernel *kernel;
    Dim grid, block;
    size_t shared;       // bytes of dynamic shared memory
    void *const *params; // valid until run returns
};

struct Options {
    uint64_t seed;     // of the order of blocks and threads; 0: in order
    bool late_copies;  // asynchronous copies land at the wait that covers them, else at once
    unsigned workers;  // OS threads that run blocks
};

// run executes a launch. It returns false when the kernel did what hardware does
// not define (a divergent barrier, threads that end while others wait) and puts what and
// where into report.
bool run(const Launch &launch, const Options &options, char *report, size_t size);

} // namespace simt
