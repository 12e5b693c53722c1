// Who owns which memory, and how much of a device's budget is spent.
#include "machine.h"

namespace standin {
namespace {

size_t footprint(size_t bytes) {
    constexpr size_t unit = simt::Mapping::ALIGNMENT;
    return (bytes + unit - 1) / unit * unit;
}

} // namespace

bool Machine::refuse_alloc() {
    bool fires = fail_alloc.fires();
    injected += fires;
    return fires;
}

AllocationRef Machine::allocate(const ContextRef &context, size_t bytes, const PoolRef &pool) {
    Device &device = *context->device;
    if (refuse_alloc() || bytes > settings.memory)
        return nullptr;
    size_t own = footprint(bytes);
    size_t held = pool ? pool->reserved - pool->used : 0; // pays for it as far as it goes
    size_t spent = own > held ? own - held : 0;
    if (spent > budget(device))
        return nullptr;
    auto allocation = std::make_shared<Allocation>(bytes);
    allocation->context = context;
    allocation->pool = pool;
    allocation->footprint = own;
    device.used += spent;
    if (pool) {
        pool->used += own;
        pool->reserved += spent;
        pool->used_high = std::max(pool->used_high, pool->used);
        pool->reserved_high = std::max(pool->reserved_high, pool->reserved);
    }
    allocations[allocation->begin()] = allocation;
    return allocation;
}

AllocationRef Machine::allocate_host(const ContextRef &context, size_t bytes) {
    if (refuse_alloc())
        return nullptr;
    auto allocation = std::make_shared<Allocation>(bytes);
    allocation->context = context;
    allocation->host = true;
    allocations[allocation->begin()] = allocation;
    return allocation;
}

AllocationRef Machine::allocation(uintptr_t address) const {
    auto after = allocations.upper_bound(address);
    if (after == allocations.begin())
        return nullptr;
    const AllocationRef &before = std::prev(after)->second;
    return address < before->end() ? before : nullptr;
}

void Machine::release(const AllocationRef &allocation) {
    if (!allocation->memory.intact())
        misused("something wrote next to the " + std::to_string(allocation->memory.size()) + " bytes of an allocation");
    Device &device = *allocation->context->device;
    if (Pool *pool = allocation->pool.get()) {
        pool->used -= allocation->footprint;
        if (pool->handle == nullptr)
            pool->trim(0);
    } else {
        device.used -= allocation->footprint;
    }
    allocations.erase(allocation->begin());
}

void Pool::trim(size_t keep) {
    size_t held = std::max(used, std::min(reserved, keep));
    device->used -= reserved - held;
    reserved = held;
}

} // namespace standin
