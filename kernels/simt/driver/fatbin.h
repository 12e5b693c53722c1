// What can be told about a module's image without running it.
#pragma once

#include "api.h"

namespace standin {

// check_image looks through a fat binary, compressed or not, for code of this compute
// capability: machine code of the same major version or PTX that is not newer. Other images
// are CUDA_ERROR_INVALID_IMAGE.
CUresult check_image(const void *image, int major, int minor);

} // namespace standin
