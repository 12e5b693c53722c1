// What must hold in a test, or the program ends and names the line.
#pragma once

#include <cstdio>
#include <cstdlib>

inline void demand(bool holds, int line = __builtin_LINE(), const char *file = __builtin_FILE()) {
    if (holds)
        return;
    std::fprintf(stderr, "%s:%d: does not hold\n", file, line);
    std::exit(EXIT_FAILURE);
}
