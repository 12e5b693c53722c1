// Calls that come back to where they began, which Metal does not have.
#pragma once

#include <string>

namespace msl {

// recursion finds a function that calls itself, if by way of others, in a program as text of
// LLVM, and returns its name; empty: there is none.
std::string recursion(const std::string &llvm);

} // namespace msl
