// Misuse: what Metal or its validation layer ends a program for, and what it would let pass and
// suffer from later. The stand-in ends the process, with the call and the reason.
#pragma once

#include "object.h"

namespace metal {

[[noreturn]] void misuse(id object, SEL call, const char *format, ...) __attribute__((format(printf, 3, 4)));
[[noreturn]] void misuse(const char *function, const char *format, ...) __attribute__((format(printf, 2, 3)));

} // namespace metal
