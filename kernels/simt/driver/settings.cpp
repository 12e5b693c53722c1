#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace standin {
namespace {

[[noreturn]] void refuse(const char *name, const char *value, const char *want) {
    fprintf(stderr, "simt: %s=%s: want %s\n", name, value, want);
    exit(2);
}

// number is the variable's value, at least least and at most most, or unset.
uint64_t number(const char *name, uint64_t unset, uint64_t least, uint64_t most) {
    const char *value = getenv(name);
    if (value == nullptr || *value == 0)
        return unset;
    char *end;
    uint64_t n = strtoull(value, &end, 10);
    if (*end != 0 || *value == '-' || n < least || n > most) {
        char want[80];
        snprintf(want, sizeof want, "a number from %llu to %llu", (unsigned long long)least, (unsigned long long)most);
        refuse(name, value, want);
    }
    return n;
}

} // namespace

Settings::Settings() {
    seed = number("FERRUM_SIMT_SEED", 0, 0, UINT64_MAX);
    devices = int(number("FERRUM_SIMT_DEVICES", 2, 0, 16));
    memory = number("FERRUM_SIMT_MEMORY", size_t(2) << 30, 0, size_t(1) << 40);
    version = int(number("FERRUM_SIMT_VERSION", 12040, 1000, 99990));
    pools = number("FERRUM_SIMT_POOLS", 1, 0, 1) == 1;
    workers = unsigned(number("FERRUM_SIMT_WORKERS", std::thread::hardware_concurrency(), 1, 1024));
    const char *capability = getenv("FERRUM_SIMT_CAPABILITY");
    char rest;
    if (capability != nullptr && *capability != 0 && sscanf(capability, "%d.%d%c", &major, &minor, &rest) != 2)
        refuse("FERRUM_SIMT_CAPABILITY", capability, "a compute capability such as 8.6");
}

} // namespace standin
