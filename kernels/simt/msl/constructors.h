// Constructors of vectors, which clang's vectors do not have.
#pragma once

#include "syntax.h"

namespace msl {

// rewrite_constructors makes ::msl::make<T>(...) of T(...), where T may be a vector: one of
// Metal's, an alias or a parameter of a template. make<T> of another type is that type's own.
void rewrite_constructors(Source &source);

} // namespace msl
