// Every wait of a kernel is needed: a run that leaves out one of them fails.
#pragma once

#include <sys/resource.h>

#include <csignal>

#include "../../core/thread.h"
#include "../child.h"
#include "../rig.h"

namespace rig {

// each_wait_is_needed runs body, which fails where a result is wrong, as it is, when it has to pass; then without the first call
// that can be left out, without the second, and so on, and each time it has to fail. These are waits and arrivals of barriers, waits
// for products and their fences; not expectations and other fences. It is called before anything else runs: each time is
// a process of its own.
template <class Body> void each_wait_is_needed(const char *what, int calls, Body body) {
    constexpr int NO_MORE = 3, NOTHING_FAILED = 4;
    where = what;
    for (int i = -1;; i++) {
        const int status = child({}, [&] {
            const rlimit most{20, 20};
            setrlimit(RLIMIT_CPU, &most); // threads that turn in circles
            simt::omitted = i;
            body();
            const simt::Site *site = simt::omitted_site();
            if (i < 0 || site == nullptr) _exit(i < 0 ? 0 : NO_MORE);
            std::printf("%s: nothing fails without the wait at %s:%d\n", what, site->file, site->line);
            std::fflush(stdout);
            _exit(NOTHING_FAILED);
        }, true);
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (i < 0) {
            if (code != 0) fail("fails with every wait in place");
        } else if (code == NO_MORE) {
            if (i != calls) fail("has " + std::to_string(i) + " of them, want " + std::to_string(calls));
            return;
        } else if (code == NOTHING_FAILED || i == calls) {
            fail("wait " + std::to_string(i) + " can be left out");
        } else if (code != 1 && !(WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGSEGV))) {
            fail("without wait " + std::to_string(i) + " the process ends with status " + std::to_string(status));
        }
    }
}

} // namespace rig
