// The state of a compute encoder.
#pragma once

#include "machine.h"

namespace metal {

struct Encoder {
    const CommandsRef commands;
    FunctionRef pipeline;
    Bindings bindings; // they stay from dispatch to dispatch
    const size_t pass;
    bool ended = false;

    explicit Encoder(const CommandsRef &commands) : commands(commands), pass(commands->passes++) { commands->encoding = true; }
    ~Encoder(); // misuse, if it has not ended
};

} // namespace metal
