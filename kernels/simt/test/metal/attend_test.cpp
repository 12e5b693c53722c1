// The tests of the attention kernels, for Metal's.
#define FKV_METAL
#include "../attend_test.cpp"
