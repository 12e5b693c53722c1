// What compiles. Each returns an object that the caller owns, or nil with an error for the
// current pool to release. call is left without its lock.
#pragma once

#include "call.h"

namespace metal {

id library(Call &call, Device &device, const char *source, MTLLanguageVersion version, NSError **error);

// packed_library takes what stands for a metallib here: "MTLB" and then source text.
id packed_library(Call &call, Device &device, const std::string &bytes, NSError **error);

id pipeline(Call &call, const FunctionRef &function, NSError **error);

} // namespace metal
