#include "environment.h"

#include <cstdio>
#include <cstdlib>

namespace simt {
namespace {

[[noreturn]] void refuse(const char *name, const char *value, const char *want) {
    fprintf(stderr, "simt: %s=%s: want %s\n", name, value, want);
    exit(2);
}

// get is null when the variable is empty.
const char *get(const char *name) {
    const char *value = getenv(name);
    return value == nullptr || *value == 0 ? nullptr : value;
}

} // namespace

uint64_t number(const char *name, uint64_t unset, uint64_t least, uint64_t most) {
    const char *value = get(name);
    if (value == nullptr)
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

void version(const char *name, const char *like, int &major, int &minor) {
    const char *value = get(name);
    char rest;
    if (value == nullptr || sscanf(value, "%d.%d%c", &major, &minor, &rest) == 2)
        return;
    char want[80];
    snprintf(want, sizeof want, "a version such as %s", like);
    refuse(name, value, want);
}

} // namespace simt
