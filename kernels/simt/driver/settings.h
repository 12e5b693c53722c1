// What the environment decides about the devices that the stand-in shows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace standin {

struct Settings {
    uint64_t seed = 0;       // FERRUM_SIMT_SEED: of every random order; 0: in order
    int devices = 2;         // FERRUM_SIMT_DEVICES: at most 16
    size_t memory;           // FERRUM_SIMT_MEMORY: bytes of each device
    int major = 9, minor = 0; // FERRUM_SIMT_CAPABILITY: compute capability, "8.6"
    int version = 12040;     // FERRUM_SIMT_VERSION: of the driver, 1000*major + 10*minor
    bool pools = true;       // FERRUM_SIMT_POOLS: 0: no stream-ordered memory
    unsigned workers;        // FERRUM_SIMT_WORKERS: threads that run blocks

    // Reads the environment (core/environment.h).
    Settings();
};

} // namespace standin
