// What can be told about a module's image without running it.
#pragma once

#include <map>
#include <string>

#include "api.h"

namespace standin {

// check_image looks through a fat binary, compressed or not, for code of this compute
// capability: machine code of the same major version or PTX that is not newer. Other images
// are CUDA_ERROR_INVALID_IMAGE.
CUresult check_image(const void *image, int major, int minor);

// kernels_in returns the kernels in an image that was checked and is not compressed, by name: of
// sections of machine code, and of entries of PTX. A test may name another one that runs in its place: ".text.name=other".
std::map<std::string, std::string> kernels_in(const void *image);

} // namespace standin
