// The types of Metal's library that C++ has no words for.
#pragma once

#include <string>

namespace msl {

// is_vector: such as float4. is_type: that, or a scalar such as half.
bool is_vector(const std::string &word);
bool is_type(const std::string &word);

} // namespace msl
