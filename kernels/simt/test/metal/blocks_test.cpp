// The tests of the kernels that copy and fill, for Metal's.
#define FKV_METAL
#include "../blocks_test.cpp"
