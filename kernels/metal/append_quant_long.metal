// Append to latent caches that are quantized: rows are too long for an octet a lane.
#define FKV_LONG_ROWS 1

#include "append_quant.metal"
