// Looking for bugs that are known to be there: kernels with one bug each, their correct twins,
// and what each build must say. Each kernel runs in a process of its own: the test program,
// called with the kernel's name.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../simt.h"

namespace planted {

constexpr int THREADS = 64, TILES = 4, BLOCKS = 2; // of every kernel

// What a build must say about a bug, and where; null if it need not see it. Seen by a plain
// run are wrong results, crashes and reports.
struct Bug {
    const char *name, *plain, *asan, *tsan;
    const char *file;
};

constexpr const char *WRONG = "wrong result", *CRASH = "signal 11", *RACE = "ThreadSanitizer: data race";
constexpr const char *HEAP = "AddressSanitizer: heap-buffer-overflow", *POISONED = "AddressSanitizer: use-after-poison";
constexpr const char *BOUNDS = "runtime error: index 64 out of bounds";

inline const char *expected(const Bug &bug) {
#if defined(__SANITIZE_ADDRESS__)
    return bug.asan;
#elif defined(SIMT_TSAN)
    return bug.tsan;
#else
    return bug.plain;
#endif
}

// Floats is memory for n floats, behind which lies what must not be touched.
class Floats {
public:
    explicit Floats(size_t n) : bytes_(n * sizeof(float)), whole_((bytes_ + PAGE - 1) / PAGE * PAGE) {
#ifdef __SANITIZE_ADDRESS__
        whole_ = bytes_; // its end is guarded whatever its size
        at = static_cast<float *>(malloc(whole_));
#else
        void *p = mmap(nullptr, whole_ + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED || mprotect(static_cast<char *>(p) + whole_, PAGE, PROT_NONE) != 0)
            abort();
        at = reinterpret_cast<float *>(static_cast<char *>(p) + whole_ - bytes_);
#endif
    }

    ~Floats() {
#ifdef __SANITIZE_ADDRESS__
        free(at);
#else
        munmap(reinterpret_cast<char *>(at) + bytes_ - whole_, whole_ + PAGE);
#endif
    }

    float *at;

private:
    static constexpr size_t PAGE = 4096;
    size_t bytes_, whole_;
};

// passes runs a kernel under many seeds, with late copies and with eager ones, and checks what
// it computes. run(in, out, options, report, size) launches it.
template <class Run> int passes(Run run) {
    Floats inputs(TILES * THREADS), outputs(BLOCKS * THREADS);
    float *in = inputs.at, *out = outputs.at;
    for (int i = 0; i < TILES * THREADS; i++)
        in[i] = float(i * i % 251);
    for (uint64_t seed = 0; seed < 12; seed++)
        for (bool late : {true, false}) {
            memset(out, 0xff, BLOCKS * THREADS * sizeof(float));
            char report[512];
            if (!run(in, out, simt::Options{seed, late, 1}, report, sizeof report)) {
                fprintf(stderr, "%s\n", report);
                return EXIT_FAILURE;
            }
            for (int i = 0; i < BLOCKS * THREADS; i++) {
                float want = 0;
                for (int t = 0; t < TILES; t++)
                    want += in[t * THREADS + THREADS - 1 - i % THREADS];
                if (out[i] != want) {
                    fprintf(stderr, "%s\n", WRONG);
                    return EXIT_FAILURE;
                }
            }
        }
    return EXIT_SUCCESS;
}

// observe runs a kernel in a process and returns whether it passed and all that it said.
inline bool observe(const std::string &kernel, std::string &said) {
    std::string command = "TSAN_OPTIONS=halt_on_error=1:atexit_sleep_ms=0 exec /proc/" + std::to_string(getpid()) + "/exe " + kernel + " 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    if (!pipe)
        return false;
    char buffer[4096];
    said.clear();
    while (size_t n = fread(buffer, 1, sizeof buffer, pipe))
        said.append(buffer, n);
    int status = pclose(pipe);
    if (WIFSIGNALED(status))
        said += "signal " + std::to_string(WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

inline bool check(const Bug &bug, const std::string &folder) {
    std::string said;
    if (!observe(std::string("fix_") + bug.name, said)) {
        fprintf(stderr, "fix_%s is correct, but: %s\n", bug.name, said.c_str());
        return false;
    }
    const char *words = expected(bug);
    if (!words)
        return true;
    bool passed = observe(std::string("bug_") + bug.name, said);
    bool named = !bug.file || said.find(folder + bug.file + ":") != said.npos ||
                 said.find(WRONG) != said.npos || said.find(CRASH) != said.npos;
    if (passed || said.find(words) == said.npos || !named) {
        fprintf(stderr, "bug_%s: want \"%s\" in %s, got: %s\n", bug.name, words, bug.file ? bug.file : "any file", said.c_str());
        return false;
    }
    return true;
}

// check_all is main without arguments. Files of bugs are in folder, as reports name it.
template <size_t N> int check_all(const Bug (&bugs)[N], const std::string &folder) {
    bool good = true;
    for (const Bug &bug : bugs)
        good = check(bug, folder) && good;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

} // namespace planted
