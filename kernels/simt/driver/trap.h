// What happens when a kernel touches memory that is not there: the launch fails, as it does
// on hardware, and the process goes on.
#pragma once

namespace standin {

// arm catches such accesses from now on. Under a sanitizer it does nothing: there the
// sanitizer's own report, which ends the process, says more.
void arm();

// tripped says whether a kernel was caught since the last call.
bool tripped();

} // namespace standin
