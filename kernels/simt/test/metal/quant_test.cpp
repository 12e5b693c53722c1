// The tests of quantized caches, for Metal's kernels.
#define FKV_METAL
#include "../quant_test.cpp"
