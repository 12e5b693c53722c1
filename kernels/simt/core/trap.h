// What happens when a kernel touches memory that is not there: the launch fails, as it does
// on hardware, and the process goes on.
#pragma once

#include <cstdint>

namespace simt {

// arm catches such accesses from now on. Under a sanitizer it does nothing: there the
// sanitizer's own report, which ends the process, says more.
void arm();

// tripped is the address that a kernel was last caught at since the last call; 0: none was.
uintptr_t tripped();

} // namespace simt
