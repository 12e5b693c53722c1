// A process of its own for each case of a test: a stand-in reads its environment once, and some
// cases end the process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <utility>

namespace rig {

inline void demand(bool ok, int line = __builtin_LINE()) {
    if (ok)
        return;
    fprintf(stderr, "line %d: does not hold\n", line);
    _exit(1);
}

using Environment = std::initializer_list<std::pair<const char *, const char *>>;

// child runs body in a process of its own with that environment and returns how it ended.
// quiet: without what it prints, where that it fails is part of the test.
template <class Body> int child(Environment environment, Body body, bool quiet = false) {
    fflush(nullptr);
    pid_t pid = fork();
    if (pid == 0) {
        if (quiet && freopen("/dev/null", "w", stderr) == nullptr)
            _exit(1);
        for (auto [name, value] : environment)
            setenv(name, value, 1);
        body();
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
}

// A sanitizer sees what else the stand-in has to notice.
constexpr bool sanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(SIMT_TSAN)
    true;
#else
    false;
#endif

#ifdef SIMT_TSAN
// ThreadSanitizer waits for late reports at the end of each process; children have none.
extern "C" inline __attribute__((used, visibility("default"))) const char *__tsan_default_options() {
    return "atexit_sleep_ms=0";
}
#endif

inline int failures = 0;

// run is child for a body that must come to its end.
template <class Body> void run(const char *name, Environment environment, Body body) {
    if (child(environment, body) != 0) {
        fprintf(stderr, "FAIL %s\n", name);
        failures++;
    }
}

} // namespace rig
