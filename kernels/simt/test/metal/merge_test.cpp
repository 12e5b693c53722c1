// The tests of merge and of the probes, for Metal's kernels.
#define FKV_METAL
#include "../merge_test.cpp"
