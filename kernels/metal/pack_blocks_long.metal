// Pack of blocks of latent caches: rows are too long for an octet a lane.
#define FKV_LONG_ROWS 1

#include "pack_blocks.metal"
