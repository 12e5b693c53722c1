/* What a model runner may have and package mtl never makes. */
#ifndef FKV_METALSIMT_PRIVATE_H
#define FKV_METALSIMT_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

uintptr_t fkv_metal_private_buffer(uintptr_t device, size_t size);
uintptr_t fkv_metal_untracked_buffer(uintptr_t device, size_t size);

#endif
