// The core of the emulator: runs a kernel, compiled as C++, block by block, each GPU
// thread a fiber. It knows neither CUDA nor Metal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simt {

// Dim is a shape, or an index in one; x varies fastest.
struct Dim { unsigned x = 1, y = 1, z = 1; };

// Kernel is one entry point. Kernel files register theirs when they are loaded.
struct Kernel {
    const char *name;
    unsigned threads, shared;          // launch shape as its source declares it
    const size_t *sizes; size_t count; // of its parameters
    void (*call)(void *const *params); // runs one thread of one block
};

// add registers a kernel; only files that are loaded may, for nothing guards the registry.
// find returns null for a name that nobody registered. What find and kernels return is valid
// until the next add.
void add(const Kernel &kernel);
const Kernel *find(const char *name);
size_t kernels(const Kernel **first); // how many, sorted by name

// Launch is one run of a kernel: params[i] is the address of its parameter i.
struct Launch {
    const Kernel *kernel;
    Dim grid, block;
    size_t shared;       // bytes of dynamic shared memory
    void *const *params; // valid until run returns
    const void *constants = nullptr; // what a dialect that has them calls so; valid until run returns
};

struct Options {
    uint64_t seed;     // of the order of blocks and threads; 0: in order
    bool late_copies;  // asynchronous copies land at the wait that covers them, else at once
    unsigned workers;  // OS threads that run blocks; 0: as many as the hardware has
};

// run executes a launch and returns when it is over. It returns false when the kernel did
// what hardware does not define (a divergent barrier, threads that end while others wait) and
// puts what and where, cut to size bytes, into report, which may be null. Accesses outside of
// memory are not caught here. It is safe for concurrent use.
bool run(const Launch &launch, const Options &options, char *report, size_t size);

} // namespace simt
