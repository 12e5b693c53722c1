//go:build cgo && !nometal && (darwin || metalsimt)

#include <string.h>

#import <CoreFoundation/CoreFoundation.h>
#import <IOKit/IOKitLib.h>

#import "shim.h"

/* The number of a family, because software development kits before macOS 13 do not have its name. */
enum { FAMILY_METAL3 = 5001 };

/* The default device is the display's, so there is none where nobody is logged in; but in some
 * sandboxes it is all there is: https://github.com/iree-org/iree/issues/24834. It is found
 * by programs that link CoreGraphics alone:
 * https://developer.apple.com/documentation/metal/mtlcreatesystemdefaultdevice() */
int32_t mtl_devices(uintptr_t *devices, int32_t size) {
    @autoreleasepool {
        NSArray<id<MTLDevice>> *all = MTLCopyAllDevices();
        int32_t count = 0;
        for (NSUInteger i = 0; i < [all count] && count < size; i++)
            devices[count++] = (uintptr_t)[[all objectAtIndex:i] retain];
        [all release];
        if (count == 0 && size > 0) {
            id<MTLDevice> usual = MTLCreateSystemDefaultDevice();
            if (usual != nil) devices[count++] = (uintptr_t)usual;
        }
        return count;
    }
}

/* The cores of Apple's own GPU, of which a machine has one; Metal does not tell, the
 * registry of drivers does. */
static int32_t cores(void) {
    /* the call takes over the dictionary */
    io_service_t gpu = IOServiceGetMatchingService(kIOMainPortDefault, IOServiceMatching("AGXAccelerator"));
    if (gpu == 0) return 0;
    int32_t count = 0;
    CFTypeRef number = IORegistryEntryCreateCFProperty(gpu, CFSTR("gpu-core-count"), kCFAllocatorDefault, 0);
    if (number != NULL) {
        if (!CFNumberGetValue(number, kCFNumberSInt32Type, &count)) count = 0;
        CFRelease(number);
    }
    IOObjectRelease(gpu);
    return count;
}

void mtl_device_describe(uintptr_t device, struct mtl_device_info *out) {
    @autoreleasepool {
        id<MTLDevice> d = (id<MTLDevice>)device;
        memset(out, 0, sizeof *out);
        const char *name = [[d name] UTF8String];
        if (name != NULL) strncpy(out->name, name, sizeof out->name - 1);
        out->registry = [d registryID];
        out->working_set = [d recommendedMaxWorkingSetSize];
        out->max_buffer = [d maxBufferLength];
        out->apple7 = [d supportsFamily:MTLGPUFamilyApple7] ? 1 : 0;
        out->metal3 = [d supportsFamily:(MTLGPUFamily)FAMILY_METAL3] ? 1 : 0;
        out->unified = [d hasUnifiedMemory] ? 1 : 0;
        if (out->apple7) out->cores = cores();

        NSOperatingSystemVersion os = [[NSProcessInfo processInfo] operatingSystemVersion];
        out->major = (int32_t)os.majorVersion;
        out->minor = (int32_t)os.minorVersion;
    }
}

uint64_t mtl_device_allocated(uintptr_t device) {
    @autoreleasepool {
        return [(id<MTLDevice>)device currentAllocatedSize];
    }
}
