// Unpack of blocks of latent caches: rows are too long for an octet a lane.
#define FKV_LONG_ROWS 1

#include "unpack_blocks.metal"
