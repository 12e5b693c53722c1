// What the Metal backend uses of Apple's IOKit: a property of the GPU in the I/O registry.
// Checked against what objc2-io-kit 0.3.1 generates from Apple's header, one page a name:
// https://docs.rs/objc2-io-kit/0.3.1/objc2_io_kit/fn.IOServiceMatching.html and so on.
#pragma once

#include <stdint.h>

#include <CoreFoundation/CoreFoundation.h>

typedef int kern_return_t;
typedef uint32_t mach_port_t;
typedef mach_port_t io_object_t;
typedef io_object_t io_registry_entry_t;
typedef io_object_t io_service_t;
typedef char io_name_t[128];
typedef uint32_t IOOptionBits;

CF_EXPORT const mach_port_t kIOMainPortDefault; // from macOS 12 on

#define IO_OBJECT_NULL ((io_object_t)0)
#define kIOServicePlane "IOService"
enum {
    kIORegistryIterateRecursively = 1,
    kIORegistryIterateParents = 2,
};

// The caller owns what comes back
CF_EXPORT CFMutableDictionaryRef IOServiceMatching(const char *name);
// Consumes a reference to matching; 0 when there is none
CF_EXPORT io_service_t IOServiceGetMatchingService(mach_port_t port, CFDictionaryRef matching);
// The caller owns what comes back, null when there is none
CF_EXPORT CFTypeRef IORegistryEntryCreateCFProperty(io_registry_entry_t entry, CFStringRef key,
                                                    CFAllocatorRef allocator, IOOptionBits options);
// The same, also of the plane's parents or children, as the options say.
CF_EXPORT CFTypeRef IORegistryEntrySearchCFProperty(io_registry_entry_t entry, const io_name_t plane, CFStringRef key,
                                                    CFAllocatorRef allocator, IOOptionBits options);
CF_EXPORT kern_return_t IOObjectRelease(io_object_t object);
