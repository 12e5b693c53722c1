// Entry points and function constants.
#pragma once

#include "syntax.h"

namespace msl {

// rewrite_kernels takes from the kernels of a source what C++ does not know, and returns the
// text, to be put behind the source, by which they are found and called.
std::string rewrite_kernels(Source &source);

} // namespace msl
