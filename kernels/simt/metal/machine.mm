#include "machine.h"

#include <cstdio>

#include "classes.h"

namespace metal {
namespace {

constexpr size_t PAGE = 16 << 10; // of Apple's hardware

size_t pages(size_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

} // namespace

Machine &machine() {
    static Machine *m = new Machine;
    return *m;
}

Machine::Machine() : random(settings.seed) {
    for (int i = 0; i < settings.devices; i++) {
        devices.push_back(std::make_unique<Device>());
        Device *device = devices.back().get();
        device->ordinal = i;
        device->object = make([SimtDevice class], std::shared_ptr<Device>(device, [](Device *) {}));
    }
}

void Machine::note(const std::string &text) {
    report = text;
    fprintf(stderr, "simt: %s\n", text.c_str());
}

Buffer::Buffer(Device &device, size_t size, bool shared, bool tracked, size_t working_set)
    : device(device), memory(size), shared(shared), tracked(tracked), excess(device.allocated + pages(size) > working_set) {
    device.buffers++;
    device.bytes += size;
    device.allocated += pages(size);
}

Buffer::~Buffer() {
    device.buffers--;
    device.bytes -= memory.size();
    device.allocated -= pages(memory.size());
}

} // namespace metal
