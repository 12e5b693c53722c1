// What the environment decides about the devices and the system that the stand-in shows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace metal {

struct Settings {
    uint64_t seed;             // FERRUM_SIMT_SEED: of every random order; 0: in order
    int devices;               // FERRUM_SIMT_DEVICES: at most 16
    size_t memory;             // FERRUM_SIMT_MEMORY: bytes of each device's working set
    size_t largest;            // FERRUM_SIMT_BUFFER: bytes of the longest buffer; unset: half of memory
    unsigned workers;          // FERRUM_SIMT_WORKERS: threads that run threadgroups
    int family;                // FERRUM_SIMT_APPLE: the newest MTLGPUFamilyApple, 6 to 9
    bool unified;              // FERRUM_SIMT_UNIFIED: 0: the host's memory is not the device's
    bool listed;               // FERRUM_SIMT_LISTED: 0: the list of devices is empty, as in some sandboxes
    int major = 14, minor = 5; // FERRUM_SIMT_MACOS: "13.0"
    unsigned timeout;          // FERRUM_SIMT_TIMEOUT: milliseconds without progress before a wait gives up

    // Reads the environment (core/environment.h).
    Settings();

    bool bfloat() const { return major >= 14; } // Metal 3.1
    bool metal3() const { return major >= 13; }
};

} // namespace metal
