// Launches, and what hardware would refuse about them.
#include <cstring>

#include "../core/trap.h"
#include "call.h"
#include "limits.h"

using namespace standin;

namespace {

// Ready is a launch with its own copy of the parameters, as the driver makes it.
struct Ready {
    const simt::Kernel *kernel;
    simt::Dim grid, block;
    size_t shared;
    struct alignas(64) Line { unsigned char bytes[64]; }; // tensor maps are aligned to as much
    std::vector<Line> bytes;
    std::vector<void *> params;

    CUresult take(void **from);
    CUresult run(Machine &m);
};

CUresult Ready::take(void **from) {
    if (kernel->count > 0 && from == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    size_t total = 0;
    for (size_t i = 0; i < kernel->count; i++)
        total += kernel->sizes[i];
    if (total > Limits::PARAMETERS)
        return CUDA_ERROR_INVALID_VALUE;
    std::vector<size_t> begin;
    for (size_t i = 0, lines = 0; i < kernel->count; i++) {
        if (from[i] == nullptr)
            return CUDA_ERROR_INVALID_VALUE;
        begin.push_back(lines);
        lines += (kernel->sizes[i] + sizeof(Line) - 1) / sizeof(Line);
        bytes.resize(lines);
    }
    for (size_t i = 0; i < kernel->count; i++) {
        params.push_back(&bytes[begin[i]]);
        memcpy(params[i], from[i], kernel->sizes[i]);
    }
    return CUDA_SUCCESS;
}

CUresult Ready::run(Machine &m) {
    m.runs[kernel->name]++;
    simt::Options options;
    options.seed = m.scheduler.seed() == 0 ? 0 : m.scheduler.random(UINT64_MAX) | 1;
    // Now and then a copy lands at once: a missing barrier before it shows only then.
    options.late_copies = m.scheduler.seed() == 0 || m.scheduler.random(4) != 0;
    options.workers = m.settings.workers;
    char report[1024] = "";
    simt::arm();
    if (simt::run({kernel, grid, block, shared, params.data()}, options, report, sizeof report))
        return CUDA_SUCCESS;
    m.note(report);
    return simt::tripped() != 0 ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_ERROR_LAUNCH_FAILED;
}

bool fits(const simt::Dim &grid, const simt::Dim &block) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0)
        return false;
    if (grid.x > INT32_MAX || grid.y > Limits::GRID_YZ || grid.z > Limits::GRID_YZ)
        return false;
    if (block.x > Limits::BLOCK_THREADS || block.y > Limits::BLOCK_THREADS || block.z > Limits::BLOCK_Z)
        return false;
    return block.x * block.y * block.z <= Limits::BLOCK_THREADS;
}

} // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **params,
                        void **extra) {
    return in_context({__func__}, [&](Machine &m, const ContextRef &context) {
        std::shared_ptr<Function> f = m.functions.find(function);
        StreamRef s = m.stream(context, stream);
        if (!f || !s || f->context != context || s->context != context)
            return CUDA_ERROR_INVALID_HANDLE;
        simt::Dim grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
        if (!fits(grid, block) || shared > unsigned(f->dynamic_shared))
            return CUDA_ERROR_INVALID_VALUE;
        if (block_x * block_y * block_z > f->kernel->threads)
            return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        if (extra != nullptr) // packed parameters, which need offsets that C++ does not tell
            return params != nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
        auto ready = std::make_shared<Ready>();
        ready->kernel = f->kernel;
        ready->grid = grid;
        ready->block = block;
        ready->shared = shared;
        CUresult result = ready->take(params);
        if (result != CUDA_SUCCESS)
            return result;
        if (m.fail_launch.fires()) {
            m.injected++;
            return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        }
        result = m.allow(*s, Use::RECORD);
        if (result != CUDA_SUCCESS)
            return result;
        return m.submit(*s, [ready, function](Machine &m, const Stream &, Work *work) {
            if (!m.functions.find(function))
                return m.misused(std::string(ready->kernel->name) + ": a graph has a kernel whose module was unloaded");
            work->launch = true;
            work->run = [&m, ready] { return ready->run(m); };
            return CUDA_SUCCESS;
        });
    });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &) {
        std::shared_ptr<Function> f = m.functions.find(function);
        if (!f)
            return CUDA_ERROR_INVALID_HANDLE;
        if (blocks == nullptr || threads <= 0)
            return CUDA_ERROR_INVALID_VALUE;
        *blocks = 0;
        if (unsigned(threads) > f->kernel->threads || shared > size_t(f->dynamic_shared))
            return CUDA_SUCCESS; // no block of that shape can run
        const Limits limits(m.settings);
        int warps = (threads + 31) / 32;
        int by_registers = Limits::REGISTERS / (Limits::KERNEL_REGISTERS * 32 * warps);
        int by_shared = limits.shared_total / (int(shared) + Limits::SHARED_RESERVED);
        *blocks = std::min({limits.blocks, limits.threads / (32 * warps), by_registers, by_shared});
        return CUDA_SUCCESS;
    });
}
