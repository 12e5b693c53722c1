// What the Metal backend uses of Apple's Dispatch: bytes for newLibraryWithData:error:.
#pragma once

#import <Foundation/Foundation.h>

// Dispatch objects are Objective-C objects: dispatch/dispatch_data_t
@protocol OS_dispatch_data <NSObject>
@end
typedef NSObject<OS_dispatch_data> *dispatch_data_t;

typedef NSObject *dispatch_queue_t;    // dispatch/dispatch_queue_t
typedef void (^dispatch_block_t)(void); // dispatch/dispatch_block_t

// dispatch/dispatch_data_destructor_default: the bytes are copied
#define DISPATCH_DATA_DESTRUCTOR_DEFAULT ((dispatch_block_t)NULL)

// dispatch/dispatch_data_create: the caller owns what comes back
FOUNDATION_EXPORT dispatch_data_t dispatch_data_create(const void *buffer, size_t size, dispatch_queue_t queue,
                                                       dispatch_block_t destructor);
// dispatch/dispatch_release
FOUNDATION_EXPORT void dispatch_release(NSObject *object);
