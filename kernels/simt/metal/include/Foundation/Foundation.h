// What the Metal backend uses of Apple's Foundation, and no more, so that what it should not
// use does not compile. Each declaration names what it was checked against: a header of
// Apple's metal-cpp, or a page of Apple's documentation below /documentation/. It serves
// programs on Linux, where kernels/simt/metal implements it, and checks of syntax for
// Apple's targets; go run ./scripts/metal-headers compares it with metal-cpp.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// id, SEL and Class are known to the compiler. BOOL: objectivec/bool; on Linux it is libobjc's.
#if !defined(__APPLE__)
typedef unsigned char BOOL;
#elif defined(__arm64__)
typedef bool BOOL;
#else
typedef signed char BOOL;
#endif
#ifndef nil
#define YES ((BOOL)1)
#define NO ((BOOL)0)
#define nil ((id)0)
#endif

#ifdef __cplusplus
#define FOUNDATION_EXPORT extern "C"
#else
#define FOUNDATION_EXPORT extern
#endif

// objectivec/ns_enum
#define NS_ENUM(type, name) enum name : type name; enum name : type
#define NS_OPTIONS(type, name) enum name : type name; enum name : type

typedef long NSInteger;           // NSTypes.hpp
typedef unsigned long NSUInteger; // NSTypes.hpp

@protocol NSObject
- (instancetype)retain;      // NSObject.hpp
- (oneway void)release;      // NSObject.hpp
- (instancetype)autorelease; // NSObject.hpp
- (BOOL)respondsToSelector:(SEL)selector; // objectivec/nsobjectprotocol/responds(to:)
@end

__attribute__((objc_root_class))
@interface NSObject <NSObject> {
    Class isa; // the runtime's
}
+ (instancetype)alloc; // NSObject.hpp
+ (instancetype)new;   // objectivec/nsobject-swift.class/new
- (instancetype)init;  // NSObject.hpp
@end

// What an @autoreleasepool is, for runtimes that have no pools of their own.
@interface NSAutoreleasePool : NSObject // NSAutoreleasePool.hpp
- (void)drain;                          // NSAutoreleasePool.hpp
@end

typedef NS_ENUM(NSUInteger, NSStringEncoding) { // NSString.hpp
    NSUTF8StringEncoding = 4, // NSString.hpp
};

@interface NSString : NSObject                            // NSString.hpp
+ (instancetype)stringWithUTF8String:(const char *)bytes; // foundation/nsstring/init(utf8string:)-321f6
- (instancetype)initWithBytes:(const void *)bytes
                       length:(NSUInteger)length
                     encoding:(NSStringEncoding)encoding; // foundation/nsstring/init(bytes:length:encoding:)
@property (readonly) const char *UTF8String;              // NSString.hpp
@end

@interface NSArray<ObjectType> : NSObject          // NSArray.hpp
@property (readonly) NSUInteger count;             // NSArray.hpp
- (ObjectType)objectAtIndex:(NSUInteger)index;     // NSArray.hpp
@end

@interface NSError : NSObject                            // NSError.hpp
@property (readonly) NSString *domain;                   // NSError.hpp
@property (readonly) NSInteger code;                     // NSError.hpp
@property (readonly) NSString *localizedDescription;     // NSError.hpp
@end

typedef struct { // NSTypes.hpp
    NSInteger majorVersion;
    NSInteger minorVersion;
    NSInteger patchVersion;
} NSOperatingSystemVersion;

@interface NSProcessInfo : NSObject                                 // NSProcessInfo.hpp
+ (NSProcessInfo *)processInfo;                                     // NSProcessInfo.hpp
@property (readonly) NSOperatingSystemVersion operatingSystemVersion; // NSProcessInfo.hpp
@end
