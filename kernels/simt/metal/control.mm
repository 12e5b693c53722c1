#include "control.h"

#include <algorithm>
#include <cstring>

#include "machine.h"
#include "object.h"
#include "registry.h"

using namespace metal;

namespace {

// locked runs f on the machine under its lock.
template <class F> auto locked(F f) {
    Machine &m = machine();
    std::unique_lock<std::mutex> lock(m.mutex);
    return f(m, lock);
}

void set(Countdown Machine::*countdown, uint64_t n) {
    locked([&](Machine &m, auto &) { (m.*countdown).left = n; });
}

// sort puts the objects of each class where they are counted.
void sort(fkv_metal_counts &counts) {
    const std::map<std::string, uint64_t fkv_metal_counts::*> places = {
        {"SimtQueue", &fkv_metal_counts::queues},       {"SimtCommandBuffer", &fkv_metal_counts::command_buffers},
        {"SimtEncoder", &fkv_metal_counts::encoders},   {"SimtEvent", &fkv_metal_counts::events},
        {"SimtLibrary", &fkv_metal_counts::libraries},  {"SimtFunction", &fkv_metal_counts::functions},
        {"SimtPipeline", &fkv_metal_counts::pipelines},
    };
    for (const auto &[name, n] : census()) {
        auto place = places.find(name);
        if (place != places.end())
            counts.*place->second += uint64_t(n);
        else if (name != "SimtDevice" && name != "SimtBuffer") // counted by references, by memory
            counts.others += uint64_t(n);
    }
}

} // namespace

void fkv_metal_fail_buffer(uint64_t n) { set(&Machine::fail_buffer, n); }
void fkv_metal_fail_library(uint64_t n) { set(&Machine::fail_library, n); }
void fkv_metal_fail_pipeline(uint64_t n) { set(&Machine::fail_pipeline, n); }
void fkv_metal_fail_call(uint64_t n) { set(&Machine::fail_call, n); }

void fkv_metal_fail_commands(uint64_t n, unsigned code) {
    locked([&](Machine &m, auto &) {
        m.fail_commands.left = n;
        m.fail_code = code;
        m.revoked = false;
    });
}

int fkv_metal_lose(int device, int gone) {
    return locked([&](Machine &m, auto &) {
        if (device < 0 || size_t(device) >= m.devices.size())
            return 0;
        m.devices[size_t(device)]->lost = gone != 0;
        return 1;
    });
}

void fkv_metal_seed(uint64_t seed) {
    locked([&](Machine &m, auto &) { m.seed(seed); });
}

int fkv_metal_count(fkv_metal_counts *counts, size_t size) {
    if (size != sizeof *counts)
        return 0;
    fkv_metal_counts c = {};
    locked([&](Machine &m, auto &lock) {
        m.changed.wait(lock, [&] { return m.untold == 0; });
        for (const auto &device : m.devices) {
            c.buffers += device->buffers;
            c.bytes += device->bytes;
            c.others += uint64_t(references(device->object) - 1);
        }
        c.commits = m.commits;
        c.dispatches = m.dispatches;
        c.completed = m.completed;
        c.failed = m.failed;
        c.injected = m.injected;
    });
    c.others += uint64_t(registry_entries());
    sort(c);
    *counts = c;
    return 1;
}

uint64_t fkv_metal_calls(const char *selector) {
    return locked([&](Machine &m, auto &) {
        auto counter = m.calls.find(std::string_view(selector));
        return counter == m.calls.end() ? 0 : counter->second;
    });
}

void fkv_metal_report(char *text, size_t size) {
    if (size == 0)
        return;
    locked([&](Machine &m, auto &) {
        size_t n = std::min(size - 1, m.report.size());
        memcpy(text, m.report.data(), n);
        text[n] = 0;
    });
}
