//go:build cgo && !nometal && (darwin || metalsimt)

/* What the files of the shim share. Objects are retained and released by hand: files are
 * compiled without automatic reference counting. */
#ifndef FKV_MTL_SHIM_H
#define FKV_MTL_SHIM_H

#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include "mtl.h"

/* mtl_failed is the error of a call that gave no object, with its reason or nil. */
struct mtl_error *mtl_failed(const char *call, NSError *reason);
/* mtl_refused is the error of a call that was not made. */
struct mtl_error *mtl_refused(const char *call, const char *why);
/* mtl_command_error is NULL unless the command buffer has failed. */
struct mtl_error *mtl_command_error(id<MTLCommandBuffer> command);
/* mtl_command_revoked says whether the command buffer failed because the system ignores this process. */
int mtl_command_revoked(id<MTLCommandBuffer> command);

/* mtl_string returns a string that the caller releases, nil if the bytes are no UTF-8. */
NSString *mtl_string(const char *bytes, size_t size);

#endif
