#include "control.h"

#include <algorithm>
#include <cstring>

#include "machine.h"

using namespace standin;

namespace {

// locked runs f on the machine under its lock.
template <class F> auto locked(F f) {
    Machine &m = machine();
    std::lock_guard<std::mutex> lock(m.mutex);
    return f(m);
}

} // namespace

void fkv_standin_fail_alloc(uint64_t n) {
    locked([&](Machine &m) { m.fail_alloc.left = n; });
}

void fkv_standin_fail_launch(uint64_t n) {
    locked([&](Machine &m) { m.fail_launch.left = n; });
}

void fkv_standin_fail_call(uint64_t n) {
    locked([&](Machine &m) { m.fail_call.left = n; });
}

void fkv_standin_fail_function(const char *name, uint64_t n, int code) {
    locked([&](Machine &m) {
        if (n != 0)
            return m.refusals.push_back({name, {n}, CUresult(code)});
        m.refusals.erase(std::remove_if(m.refusals.begin(), m.refusals.end(), [&](const Refusal &each) { return each.function == name; }),
                         m.refusals.end());
    });
}

void fkv_standin_hold(const char *name, int hold) {
    locked([&](Machine &m) {
        if (hold != 0)
            m.held.insert(name);
        else
            m.held.erase(name);
        m.released.notify_all();
    });
}

int fkv_standin_carveout(const char *kernel) {
    return locked([&](Machine &m) {
        int carveout = -2;
        m.functions.each([&](const Function &f) {
            if (strcmp(f.kernel->name, kernel) == 0)
                carveout = f.carveout;
        });
        return carveout;
    });
}

int fkv_standin_join_default(uint64_t stream) {
    return locked([&](Machine &m) {
        StreamRef s = m.streams.find(CUstream(stream));
        if (s)
            s->blocking = true;
        return s ? 1 : 0;
    });
}

int fkv_standin_lose(int device) {
    return locked([&](Machine &m) {
        Device *d = m.device(device);
        if (d == nullptr || !d->primary)
            return 0;
        d->primary->lost = CUDA_ERROR_ECC_UNCORRECTABLE;
        return 1;
    });
}

void fkv_standin_seed(uint64_t seed) {
    locked([&](Machine &m) { m.scheduler.seed(seed); });
}

int fkv_standin_count(fkv_standin_counts *counts, size_t size) {
    if (size != sizeof *counts)
        return 0;
    fkv_standin_counts c = {};
    locked([&](Machine &m) {
        for (const auto &[address, allocation] : m.allocations) {
            if (allocation->freed)
                continue;
            (allocation->host ? c.host_allocations : c.device_allocations)++;
            (allocation->host ? c.host_bytes : c.device_bytes) += allocation->memory.size();
        }
        c.contexts = m.contexts.size();
        c.streams = m.streams.size();
        c.events = m.events.size();
        c.modules = m.modules.size();
        c.pools = m.pools.size();
        c.graphs = m.graphs.size();
        c.execs = m.execs.size();
        c.launches = m.launches;
        c.injected = m.injected;
        c.misuse = m.misuse;
        c.abandoned = m.abandoned;
        c.spins = m.spins;
        c.interrupts = m.interrupts;
        c.remembered = m.scheduler.remembered();
    });
    *counts = c;
    return 1;
}

uint64_t fkv_standin_calls(const char *name) {
    return locked([&](Machine &m) {
        auto counter = m.calls.find(std::string_view(name));
        return counter == m.calls.end() ? 0 : counter->second;
    });
}

uint64_t fkv_standin_runs(const char *kernel) {
    return locked([&](Machine &m) {
        auto counter = m.runs.find(std::string_view(kernel));
        return counter == m.runs.end() ? 0 : counter->second;
    });
}

const char *fkv_standin_kernel(size_t i) {
    const simt::Kernel *first;
    return i < simt::kernels(&first) ? first[i].name : nullptr;
}

void fkv_standin_launch(size_t i, uint32_t *threads, uint32_t *shared) {
    const simt::Kernel *first;
    const bool there = i < simt::kernels(&first);
    *threads = there ? first[i].threads : 0;
    *shared = there ? first[i].shared : 0;
}

void fkv_standin_report(char *text, size_t size) {
    if (size == 0)
        return;
    locked([&](Machine &m) {
        size_t n = std::min(size - 1, m.report.size());
        memcpy(text, m.report.data(), n);
        text[n] = 0;
    });
}
