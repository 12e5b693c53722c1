#include "machine.h"

#include <cstdio>

namespace standin {

Machine &machine() {
    static Machine *m = new Machine;
    return *m;
}

uintptr_t new_handle() {
    static uintptr_t made = 0x10000; // small numbers are special handles
    return made += 0x10;
}

Machine::Machine() {
    scheduler.seed(settings.seed);
    devices.resize(size_t(settings.devices));
    for (int i = 0; i < settings.devices; i++)
        devices[size_t(i)].ordinal = i;
}

Device *Machine::device(CUdevice ordinal) {
    return ordinal >= 0 && ordinal < settings.devices ? &devices[size_t(ordinal)] : nullptr;
}

void Machine::note(const std::string &text) {
    report = text;
    fprintf(stderr, "simt: %s\n", text.c_str());
}

CUresult Machine::misused(const std::string &text) {
    misuse++;
    note(text);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult Machine::refusal(const char *function) {
    CUresult code = CUDA_SUCCESS;
    for (Refusal &each : refusals)
        if (each.function == function && each.countdown.fires()) {
            injected++;
            code = each.code;
        }
    return code;
}

StreamRef Machine::stream(const ContextRef &context, CUstream handle) {
    switch (reinterpret_cast<uintptr_t>(handle)) {
    case 0: // the default stream
    case 1: // CU_STREAM_LEGACY
        return context->legacy;
    case 2: { // CU_STREAM_PER_THREAD
        StreamRef &own = context->per_thread[std::this_thread::get_id()];
        if (!own)
            own = scheduler.open(context, true, false);
        return own;
    }
    default:
        return streams.find(handle);
    }
}

CUresult Machine::settle(Context &context, const OpRef &op) {
    scheduler.wait(op);
    return settled(context);
}

CUresult Machine::settle_all(Context &context) {
    scheduler.wait_all(context);
    return settled(context);
}

CUresult Machine::poll(Context &context, const OpRef &op) {
    if (op && !op->done && scheduler.random(2) == 0)
        scheduler.step();
    if (!op || op->done)
        return settle(context, op);
    return CUDA_ERROR_NOT_READY;
}

CUresult Machine::settled(Context &context) {
    if (context.lost != CUDA_SUCCESS)
        context.fail(context.lost);
    pools.each([](Pool &pool) { pool.trim(pool.threshold); });
    if (scheduler.retire())
        forget_streams();
    return context.error;
}

void Machine::forget_streams() {
    auto gone = [this](uint64_t stream) { return scheduler.gone(stream); };
    for (auto &[address, allocation] : allocations) {
        allocation->born.forget(gone);
        allocation->used.forget(gone);
    }
    execs.each([gone](Exec &exec) { exec.used.forget(gone); });
}

void Machine::destroy(const ContextRef &context) {
    bool healthy = context->error == CUDA_SUCCESS;
    context->destroyed = true;
    scheduler.close(*context);
    functions.remove_of(*context);
    size_t left = streams.remove_of(*context) + events.remove_of(*context) + modules.remove_of(*context) +
                  graphs.remove_of(*context) + execs.remove_of(*context);
    std::vector<AllocationRef> owned;
    for (const auto &[address, allocation] : allocations)
        if (allocation->context == context)
            owned.push_back(allocation);
    for (const AllocationRef &allocation : owned) {
        left += !allocation->freed;
        release(allocation);
    }
    forget_streams();
    if (healthy)
        abandoned += left;
    contexts.remove(context->handle);
    context->legacy = nullptr; // streams and context point at each other
    context->per_thread.clear();
}

void Context::fail(CUresult code) {
    if (error == CUDA_SUCCESS)
        error = code;
    lost = CUDA_SUCCESS;
    machine().scheduler.drop(*this);
}

} // namespace standin
