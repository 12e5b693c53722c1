// Every wait of a kernel is needed: a run that leaves out one of them fails.
#pragma once

#include <sys/resource.h>

#include "../../core/thread.h"
#include "../child.h"
#include "../rig.h"

namespace rig {

// each_wait_is_needed runs body, which fails where a result is wrong, without the first wait that it meets, then without the
// second, and so on: of all of these it fails, but for a number of them that the emulator cannot miss. It is called before
// anything else runs: each time is a process of its own.
template <class Body> void each_wait_is_needed(const char *what, size_t waits, size_t unmissed, Body body) {
    constexpr int NO_MORE = 3;
    size_t passed = 0;
    for (size_t i = 0;; i++) {
        const int status = child({}, [&] {
            const rlimit most{20, 20};
            setrlimit(RLIMIT_CPU, &most); // threads that turn in circles
            simt::omitted = int(i);
            body();
            const simt::Site *site = simt::omitted_site();
            if (site == nullptr) _exit(NO_MORE);
            std::printf("%s: nothing fails without the wait at %s:%d\n", what, site->file, site->line);
            std::fflush(stdout);
            _exit(0);
        }, true);
        if (WIFEXITED(status) && WEXITSTATUS(status) == NO_MORE) {
            where = what;
            if (i != waits || passed != unmissed) fail(std::to_string(i) + " waits, of which " + std::to_string(passed) + " can be left out");
            return;
        }
        passed += status == 0;
    }
}

} // namespace rig
