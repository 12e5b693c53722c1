// Runs a dispatch on the core.
#include "../core/trap.h"
#include "machine.h"

namespace metal {
namespace {

std::string name(const msl::Argument &argument) { return "buffer(" + std::to_string(argument.index) + ")"; }

// near names the argument whose buffer an address is at, empty when it is at none's.
std::string near(const Dispatch &dispatch, uintptr_t address) {
    size_t distance = simt::Mapping::GUARD;
    std::string found;
    for (size_t i = 0; i < dispatch.arguments.size(); i++) {
        const Binding &bound = dispatch.arguments[i];
        if (!bound.buffer)
            continue;
        auto begin = reinterpret_cast<uintptr_t>(bound.buffer->memory.data()), end = begin + bound.buffer->memory.size();
        size_t far = address < begin ? begin - address : address - end;
        if (far < distance) {
            distance = far;
            found = ", nearest is " + name(dispatch.pipeline->entry->arguments[i]);
        }
    }
    return found;
}

// frayed says whether a kernel wrote to the few bytes around a buffer that no guard covers.
std::string frayed(const Dispatch &dispatch) {
    for (size_t i = 0; i < dispatch.arguments.size(); i++) {
        const Binding &bound = dispatch.arguments[i];
        if (bound.buffer && !bound.buffer->memory.intact())
            return std::string("kernel ") + dispatch.pipeline->entry->kernel.name + " wrote just outside of " +
                   name(dispatch.pipeline->entry->arguments[i]);
    }
    return "";
}

} // namespace

// execute returns what went wrong, with the code that hardware has for it: an address that
// is not there is a page fault, and threads that wait for each other for ever time out.
std::string Machine::execute(const Dispatch &dispatch, unsigned *code) {
    const msl::Entry &entry = *dispatch.pipeline->entry;
    std::vector<void *> pointers(dispatch.arguments.size()), params(dispatch.arguments.size());
    for (size_t i = 0; i < pointers.size(); i++) {
        pointers[i] = dispatch.arguments[i].data();
        params[i] = &pointers[i];
    }
    simt::Options options;
    options.seed = random.on() ? random.next() | 1 : 0;
    options.late_copies = true;
    options.workers = settings.workers;
    simt::Launch launch{&entry.kernel, dispatch.grid, dispatch.group, entry.shared, params.data(),
                        dispatch.pipeline->constants.data()};
    char report[1024] = "";
    simt::arm();
    if (simt::run(launch, options, report, sizeof report)) {
        *code = MTLCommandBufferErrorPageFault;
        return frayed(dispatch);
    }
    uintptr_t address = simt::tripped();
    *code = address != 0 ? MTLCommandBufferErrorPageFault : MTLCommandBufferErrorTimeout;
    return report + (address != 0 ? near(dispatch, address) : "");
}

} // namespace metal
