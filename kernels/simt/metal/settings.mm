#include "settings.h"

#include <thread>

#include "../core/environment.h"

namespace metal {

Settings::Settings() {
    seed = simt::number("FERRUM_SIMT_SEED", 0, 0, UINT64_MAX);
    devices = int(simt::number("FERRUM_SIMT_DEVICES", 2, 0, 16));
    memory = simt::number("FERRUM_SIMT_MEMORY", size_t(2) << 30, 0, size_t(1) << 40);
    largest = simt::number("FERRUM_SIMT_BUFFER", memory / 2, 0, size_t(1) << 40);
    workers = unsigned(simt::number("FERRUM_SIMT_WORKERS", std::thread::hardware_concurrency(), 1, 1024));
    family = int(simt::number("FERRUM_SIMT_APPLE", 7, 6, 9));
    unified = simt::number("FERRUM_SIMT_UNIFIED", 1, 0, 1) == 1;
    listed = simt::number("FERRUM_SIMT_LISTED", 1, 0, 1) == 1;
    timeout = unsigned(simt::number("FERRUM_SIMT_TIMEOUT", 10000, 1, 600000));
    simt::version("FERRUM_SIMT_MACOS", "14.5", major, minor);
}

} // namespace metal
