// The tests of append and rotate, for Metal's kernels.
#define FKV_METAL
#include "../append_test.cpp"
