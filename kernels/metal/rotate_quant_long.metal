// Rotate of keys of latent caches that are quantized: rows are too long for an octet a lane.
#define FKV_LONG_ROWS 1

#include "rotate_quant.metal"
