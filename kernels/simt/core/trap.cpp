#include "trap.h"

#include <dlfcn.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mapping.h"
#include "sanitizers.h"
#include "thread.h"

namespace simt {
namespace {

std::atomic<uintptr_t> caught{0}; // the last address; 0: none
struct sigaction previous_segv, previous_bus;

// from_root drops what comes before the path within the repository: the compiler's
// directory, which debug information puts there.
const char *from_root(const char *path) {
    const char *root = path;
    for (const char *at = path; (at = strstr(at, "kernels/")) != nullptr; at++)
        root = at;
    return root;
}

// locate asks addr2line, where it is installed, for the line of a kernel's source.
Site locate(uintptr_t pc) {
    static thread_local char file[512];
    int line = 0;
    Dl_info info;
    if (dladdr(reinterpret_cast<void *>(pc), &info) == 0)
        return {"an unknown place", 0};
    snprintf(file, sizeof file, "%s", info.dli_fname);
    char command[1024];
    snprintf(command, sizeof command, "addr2line -e '%s' %#zx 2>/dev/null", info.dli_fname,
             size_t(pc - reinterpret_cast<uintptr_t>(info.dli_fbase)));
    char answer[512] = "";
    if (FILE *pipe = popen(command, "r")) {
        char *got = fgets(answer, sizeof answer, pipe);
        char *colon = got ? strrchr(answer, ':') : nullptr;
        if (colon && answer[0] != '?') {
            line = atoi(colon + 1);
            *colon = 0;
            snprintf(file, sizeof file, "%s", from_root(answer));
        }
        pclose(pipe);
    }
    return {file, line};
}

uintptr_t program_counter(void *context) {
    const mcontext_t &machine = static_cast<ucontext_t *>(context)->uc_mcontext;
#if defined(__x86_64__)
    return uintptr_t(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return uintptr_t(machine.pc);
#else
#error "program_counter is written for x86-64 and aarch64"
#endif
}

// pass_on hands a signal that is none of ours to who was there before, Go's runtime say.
void pass_on(int number, siginfo_t *info, void *context) {
    const struct sigaction &previous = number == SIGSEGV ? previous_segv : previous_bus;
    if ((previous.sa_flags & SA_SIGINFO) != 0)
        previous.sa_sigaction(number, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
        previous.sa_handler(number);
    else
        signal(number, SIG_DFL); // the access happens again, and ends the process
}

void handle(int number, siginfo_t *info, void *context) {
    if (current == nullptr) {
        pass_on(number, info, context);
        return;
    }
    // This thread was within a kernel, so no lock of the C library is held, and leaving the
    // fiber leaves the handler, too.
    auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    caught = address != 0 ? address : 1;
    char text[64];
    snprintf(text, sizeof text, "touches %#zx, ", size_t(address));
    std::string what = text + Mapping::describe(address);
    fault(what.c_str(), locate(program_counter(context)));
}

bool install() {
    struct sigaction action = {};
    action.sa_sigaction = handle;
    // On the alternate stack, which Go demands; not masked, because the handler may not return.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
    return true;
}

} // namespace

void arm() {
    static const bool armed = !ASAN && !TSAN && install();
    (void)armed;
}

uintptr_t tripped() { return caught.exchange(0); }

} // namespace simt
