// How every method begins: lock, count, and fail where a test wants it to.
#pragma once

#include "machine.h"
#include "misuse.h"

namespace metal {

struct Call {
    Machine &m;
    std::unique_lock<std::mutex> lock;

    explicit Call(SEL call) : m(machine()), lock(m.mutex) {
        std::string_view name = sel_getName(call);
        auto counter = m.calls.find(name);
        if (counter == m.calls.end())
            counter = m.calls.emplace(name, 0).first;
        counter->second++;
    }

    // refused: a test wants this call to fail, for its own kind or as any that can.
    bool refused(Countdown *kind = nullptr) {
        bool own = kind != nullptr && kind->fires();
        bool any = m.fail_call.fires();
        m.injected += own || any;
        return own || any;
    }
};

// refusal is the text of a failure that a test asked for.
constexpr const char *refusal = "a test asked for this failure";

// state is what an object stands for, null where it is none of that class.
template <class T> std::shared_ptr<T> state(id object, Class of) {
    return object != nil && object_getClass(object) == of ? body_of<T>(object) : nullptr;
}

} // namespace metal
