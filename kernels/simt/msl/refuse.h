// What Metal refuses, and what our kernels do without.
#pragma once

#include "syntax.h"

namespace msl {

// refuse throws an Error about the first thing in a source that C++ has and kernels may not
// use: of the language, and pointers and references without an address space.
void refuse(const Source &source);

} // namespace msl
