// The tests of floats that are stored turned, for Metal's kernels.
#define FKV_METAL
#include "../turned_test.cpp"
