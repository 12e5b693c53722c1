// The tests of gather and conversion of quantized caches, for Metal's kernels.
#define FKV_METAL
#include "../convert_test.cpp"
