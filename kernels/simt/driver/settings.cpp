#include "settings.h"

#include <thread>

#include "../core/environment.h"

namespace standin {

Settings::Settings() {
    seed = simt::number("FERRUM_SIMT_SEED", 0, 0, UINT64_MAX);
    devices = int(simt::number("FERRUM_SIMT_DEVICES", 2, 0, 16));
    memory = simt::number("FERRUM_SIMT_MEMORY", size_t(2) << 30, 0, size_t(1) << 40);
    version = int(simt::number("FERRUM_SIMT_VERSION", 12040, 1000, 99990));
    pools = simt::number("FERRUM_SIMT_POOLS", 1, 0, 1) == 1;
    workers = unsigned(simt::number("FERRUM_SIMT_WORKERS", std::thread::hardware_concurrency(), 1, 1024));
    simt::version("FERRUM_SIMT_CAPABILITY", "8.6", major, minor);
}

} // namespace standin
