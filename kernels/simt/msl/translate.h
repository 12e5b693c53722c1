// From the Metal Shading Language, after the preprocessor, to the C++ that prelude.h makes
// readable for clang.
#pragma once

#include <string>

namespace msl {

// translate rewrites what C++ does not have: entry points and their attributes, function
// constants, threadgroup variables and constructors of vectors. Lines stay where they are.
// It refuses what Metal does not have although C++ does, and what our kernels may not use.
// Throws Error.
std::string translate(const std::string &preprocessed);

} // namespace msl
