// What the Metal backend uses of Apple's Metal, and no more: see Foundation/Foundation.h. The
// comment at a type or its first line names the header of metal-cpp that has all of it.
#pragma once

#import <Foundation/Foundation.h>
#import <dispatch/dispatch.h>

typedef NS_ENUM(NSInteger, MTLGPUFamily) { // MTLDevice.hpp
    MTLGPUFamilyApple6 = 1006,
    MTLGPUFamilyApple7 = 1007,
    MTLGPUFamilyApple8 = 1008,
    MTLGPUFamilyApple9 = 1009,
    MTLGPUFamilyMetal3 = 5001,
};

typedef NS_ENUM(NSUInteger, MTLStorageMode) { // MTLResource.hpp
    MTLStorageModeShared = 0,
    MTLStorageModeManaged = 1,
    MTLStorageModePrivate = 2,
    MTLStorageModeMemoryless = 3,
};

typedef NS_ENUM(NSUInteger, MTLHazardTrackingMode) { // MTLResource.hpp
    MTLHazardTrackingModeDefault = 0,
    MTLHazardTrackingModeUntracked = 1,
    MTLHazardTrackingModeTracked = 2,
};

typedef NS_OPTIONS(NSUInteger, MTLResourceOptions) { // MTLResource.hpp
    MTLResourceStorageModeShared = 0,
    MTLResourceStorageModePrivate = 32,
    MTLResourceHazardTrackingModeUntracked = 256,
};

typedef NS_ENUM(NSUInteger, MTLLanguageVersion) { // MTLLibrary.hpp
    MTLLanguageVersion3_0 = 196608, // 3 << 16
    MTLLanguageVersion3_1 = 196609,
};

typedef NS_ENUM(NSUInteger, MTLDataType) { // MTLArgument.hpp
    MTLDataTypeBool = 53,
};

typedef NS_ENUM(NSUInteger, MTLCommandBufferStatus) { // MTLCommandBuffer.hpp
    MTLCommandBufferStatusNotEnqueued = 0,
    MTLCommandBufferStatusEnqueued = 1,
    MTLCommandBufferStatusCommitted = 2,
    MTLCommandBufferStatusScheduled = 3,
    MTLCommandBufferStatusCompleted = 4,
    MTLCommandBufferStatusError = 5,
};

typedef NS_ENUM(NSUInteger, MTLCommandBufferError) { // MTLCommandBuffer.hpp
    MTLCommandBufferErrorNone = 0,
    MTLCommandBufferErrorInternal = 1,
    MTLCommandBufferErrorTimeout = 2,
    MTLCommandBufferErrorPageFault = 3,
    MTLCommandBufferErrorAccessRevoked = 4,
    MTLCommandBufferErrorNotPermitted = 7,
    MTLCommandBufferErrorOutOfMemory = 8,
    MTLCommandBufferErrorInvalidResource = 9,
    MTLCommandBufferErrorMemoryless = 10,
    MTLCommandBufferErrorDeviceRemoved = 11,
    MTLCommandBufferErrorStackOverflow = 12,
};

typedef NS_ENUM(NSUInteger, MTLLibraryError) { // MTLLibrary.hpp
    MTLLibraryErrorUnsupported = 1,
    MTLLibraryErrorInternal = 2,
    MTLLibraryErrorCompileFailure = 3,
    MTLLibraryErrorCompileWarning = 4,
    MTLLibraryErrorFunctionNotFound = 5,
    MTLLibraryErrorFileNotFound = 6,
};

FOUNDATION_EXPORT NSString *const MTLCommandBufferErrorDomain; // metal/mtlcommandbuffererrordomain
FOUNDATION_EXPORT NSString *const MTLLibraryErrorDomain;       // metal/mtllibraryerrordomain

typedef struct { // MTLTypes.hpp
    NSUInteger width, height, depth;
} MTLSize;

static inline MTLSize MTLSizeMake(NSUInteger width, NSUInteger height, NSUInteger depth) { // MTLTypes.hpp
    MTLSize size = {width, height, depth};
    return size;
}

@protocol MTLDevice, MTLCommandBuffer, MTLComputeCommandEncoder;

@protocol MTLResource <NSObject> // MTLResource.hpp
@property (readonly) id<MTLDevice> device;
@property (readonly) MTLStorageMode storageMode;
@property (readonly) MTLHazardTrackingMode hazardTrackingMode;
@end

@protocol MTLBuffer <MTLResource> // MTLBuffer.hpp
@property (readonly) NSUInteger length;
- (void *)contents;
@end

@protocol MTLEvent <NSObject> // MTLEvent.hpp
@end

@protocol MTLSharedEvent <MTLEvent> // MTLEvent.hpp
@property (readwrite) uint64_t signaledValue;
@end

@interface MTLCompileOptions : NSObject // MTLLibrary.hpp
@property (readwrite) BOOL fastMathEnabled;
@property (readwrite) MTLLanguageVersion languageVersion;
@end

@interface MTLFunctionConstantValues : NSObject // MTLFunctionConstantValues.hpp
- (void)setConstantValue:(const void *)value type:(MTLDataType)type atIndex:(NSUInteger)index;
@end

@protocol MTLFunction <NSObject> // MTLLibrary.hpp
@end

@protocol MTLLibrary <NSObject> // MTLLibrary.hpp
- (id<MTLFunction>)newFunctionWithName:(NSString *)name
                        constantValues:(MTLFunctionConstantValues *)values
                                 error:(NSError **)error;
@end

@protocol MTLComputePipelineState <NSObject> // MTLComputePipeline.hpp
@property (readonly) NSUInteger maxTotalThreadsPerThreadgroup;
@property (readonly) NSUInteger threadExecutionWidth;
@property (readonly) NSUInteger staticThreadgroupMemoryLength;
@end

@protocol MTLCommandQueue <NSObject> // MTLCommandQueue.hpp
@property (readonly) id<MTLDevice> device;
- (id<MTLCommandBuffer>)commandBuffer;
@end

typedef void (^MTLCommandBufferHandler)(id<MTLCommandBuffer>); // MTLCommandBuffer.hpp

@protocol MTLCommandBuffer <NSObject> // MTLCommandBuffer.hpp
- (id<MTLComputeCommandEncoder>)computeCommandEncoder;
- (void)encodeSignalEvent:(id<MTLEvent>)event value:(uint64_t)value;
- (void)encodeWaitForEvent:(id<MTLEvent>)event value:(uint64_t)value;
- (void)addCompletedHandler:(MTLCommandBufferHandler)block;
- (void)commit;
- (void)waitUntilCompleted;
@property (readonly) MTLCommandBufferStatus status;
@property (readonly) NSError *error;
@end

@protocol MTLCommandEncoder <NSObject> // MTLCommandEncoder.hpp
- (void)endEncoding;
@end

@protocol MTLComputeCommandEncoder <MTLCommandEncoder> // MTLComputeCommandEncoder.hpp
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state;
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index;
- (void)setBytes:(const void *)bytes length:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)dispatchThreadgroups:(MTLSize)threadgroups threadsPerThreadgroup:(MTLSize)threads;
@end

@protocol MTLDevice <NSObject> // MTLDevice.hpp
@property (readonly) NSString *name;
@property (readonly) uint64_t recommendedMaxWorkingSetSize;
@property (readonly) uint64_t registryID;
@property (readonly) NSUInteger maxBufferLength;
@property (readonly) NSUInteger currentAllocatedSize;
@property (readonly) BOOL hasUnifiedMemory;
- (BOOL)supportsFamily:(MTLGPUFamily)family;
- (id<MTLCommandQueue>)newCommandQueue;
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
- (id<MTLLibrary>)newLibraryWithSource:(NSString *)source options:(MTLCompileOptions *)options error:(NSError **)error;
- (id<MTLLibrary>)newLibraryWithData:(dispatch_data_t)data error:(NSError **)error;
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)function error:(NSError **)error;
- (id<MTLSharedEvent>)newSharedEvent;
@end

// The caller owns what either returns.
FOUNDATION_EXPORT NSArray<id<MTLDevice>> *MTLCopyAllDevices(void);  // MTLDevice.hpp
FOUNDATION_EXPORT id<MTLDevice> MTLCreateSystemDefaultDevice(void); // MTLDevice.hpp
