// What a launch may ask for, as CUDA's programming guide lists it by compute capability.
#pragma once

#include "settings.h"

namespace standin {

struct Limits {
    static constexpr int BLOCK_THREADS = 1024, BLOCK_Z = 64, GRID_YZ = 65535;
    static constexpr int SHARED = 48 << 10;         // dynamic, without asking for more
    static constexpr int SHARED_RESERVED = 1 << 10; // of each block, for the system
    static constexpr int REGISTERS = 65536;         // of a multiprocessor
    static constexpr int KERNEL_REGISTERS = 64;     // an assumption: the CPU's kernels have no count
    static constexpr size_t PARAMETERS = 4096;      // bytes

    int shared_total, shared_optin; // of a multiprocessor, of a block that asks for it
    int threads, blocks;            // of a multiprocessor

    explicit Limits(const Settings &s) {
        int capability = s.major * 10 + s.minor;
        bool big = capability == 80 || capability == 87;
        shared_total = (capability >= 90 ? 228 : big ? 164 : capability >= 80 ? 100 : 64) << 10;
        shared_optin = capability >= 80 ? shared_total - SHARED_RESERVED : shared_total;
        threads = capability >= 90 || capability == 80 ? 2048 : capability >= 80 ? 1536 : 1024;
        blocks = capability >= 90 || capability == 80 ? 32 : capability == 89 ? 24 : 16;
    }
};

} // namespace standin
