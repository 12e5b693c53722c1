// The words of the Metal Shading Language for clang, which compiles kernels as C++14: those
// that our kernels use, and no others, so that a kernel which wants more fails here and not
// first on a Mac. What C++ cannot be made to read, translate.cpp rewrites.
//
// With MSL_AS the address spaces are part of the types, and clang refuses what mixes them as
// Metal would. Kernels that run are compiled without: the sanitizers skip memory of other
// address spaces. The race check makes use of that, to see one memory alone (MSL_ONLY).
#pragma once
#pragma clang system_header

#include "table.h"
#include "vector.h"
#include "math.h"
#include "simdgroup.h"
#include "matrix.h"
#include "atomic.h"
#include "entry.h"

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

#define thread
#define device MSL_DEVICE
#define constant MSL_CONSTANT const
#define threadgroup MSL_THREADGROUP
