#pragma once

#include <cstdint>

namespace metal {

// registry_entries is how many references to entries of the I/O registry are held.
int64_t registry_entries();

} // namespace metal
