/* Code generated from backend/coding.go by backend/internal/abi/gen. DO NOT EDIT. */
/*
 * How a plane of the cache is stored, as kernels look it up when they run: a type's row in
 * backend/coding.go as a word. Kernels test its bits and know no type by number.
 */
#ifndef FKV_STORAGE_H
#define FKV_STORAGE_H

#define FKV_NIBBLES 0x1 /* codes have 4 bits, two a byte, that of the even index low; the others have 8 */
#define FKV_SIGNED 0x2 /* codes are integers of two's complement around 0 */
#define FKV_FLOATS 0x4 /* codes are small floats */
#define FKV_E4M3 0x8 /* of those of 8 bits, that of 4 bits of exponent; the other is E5M2, and that of 4 bits E2M1 */
#define FKV_BY_CHANNEL 0x10 /* an element of all rows of a block and head has a word */
#define FKV_BY_HEAD 0x20 /* all elements of a head have a word */
#define FKV_EXPONENTS 0x40 /* a word is four bytes, the first group's lowest, that are the exponents of powers of two */
#define FKV_FACTORS 0x80 /* a word is an f32 that codes are multiplied with */
#define FKV_F32 0x100 /* elements are f32: no codes, and no words */
#define FKV_F16 0x200 /* elements are f16 */
#define FKV_BF16 0x400 /* elements are bf16 */
#define FKV_MINIFACTORS 0x800 /* a word is four bytes, the first group's lowest, that are E4M3; the plane's words begin with an f32 for each head, and fill to four words */

/* word >> FKV_SHARE is the logarithm of the octets, 8 elements of a row each, that have a word of scales together. */
#define FKV_SHARE 28

/* Every type: its name, and its word. */
#define FKV_EACH_STORAGE(f) \
    f(int8, FKV_STORAGE_INT8) \
    f(int8asym, FKV_STORAGE_INT8ASYM) \
    f(fp8e4m3, FKV_STORAGE_FP8E4M3) \
    f(fp8e5m2, FKV_STORAGE_FP8E5M2) \
    f(int4, FKV_STORAGE_INT4) \
    f(int4g64, FKV_STORAGE_INT4G64) \
    f(int4channel, FKV_STORAGE_INT4CHANNEL) \
    f(mxfp4, FKV_STORAGE_MXFP4) \
    f(nvfp4, FKV_STORAGE_NVFP4)

#define FKV_STORAGE_INT8 0x70000082u
#define FKV_STORAGE_INT8ASYM 0x70000000u
#define FKV_STORAGE_FP8E4M3 0x700000acu
#define FKV_STORAGE_FP8E5M2 0x700000a4u
#define FKV_STORAGE_INT4 0x20000001u
#define FKV_STORAGE_INT4G64 0x30000001u
#define FKV_STORAGE_INT4CHANNEL 0x70000011u
#define FKV_STORAGE_MXFP4 0x40000045u
#define FKV_STORAGE_NVFP4 0x30000805u

#endif
