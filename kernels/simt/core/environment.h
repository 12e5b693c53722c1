// Numbers that environment variables set. A value that does not parse ends the process with a
// message: a test that runs with another setting than it names proves nothing.
#pragma once

#include <cstdint>

namespace simt {

// number is the variable's value, at least least and at most most; unset when it is empty.
uint64_t number(const char *name, uint64_t unset, uint64_t least, uint64_t most);

// version reads "major.minor" into both, and leaves them when the variable is empty; like is
// an example for the message.
void version(const char *name, const char *like, int &major, int &minor);

} // namespace simt
