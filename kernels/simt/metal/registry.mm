// The I/O registry as far as one property goes: the number of the GPU's cores. A device
// without unified memory stands for an Intel Mac's, which has no such entry.
#include <atomic>
#include <cstring>
#include <string>

#include <IOKit/IOKitLib.h>

#include "classes.h"
#include "machine.h"
#include "misuse.h"
#include "registry.h"

using namespace metal;

namespace {

constexpr int CORES = 8;
constexpr io_service_t GPU = 0x51;

std::atomic<int64_t> held{0}; // references to the entry

} // namespace

@interface SimtMatching : NSObject
@end
@implementation SimtMatching
@end

@interface SimtNumber : NSObject
@end
@implementation SimtNumber
@end

const CFAllocatorRef kCFAllocatorDefault = nullptr;
const mach_port_t kIOMainPortDefault = 0;

int64_t metal::registry_entries() { return held; }

CFStringRef __CFStringMakeConstantString(const char *text) { return reinterpret_cast<CFStringRef>(text); }

Boolean CFNumberGetValue(CFNumberRef number, CFNumberType type, void *value) {
    id object = reinterpret_cast<id>(const_cast<__CFNumber *>(number));
    if (object == nil || object_getClass(object) != [SimtNumber class])
        misuse("CFNumberGetValue", "this is no number");
    int64_t n = *body_of<int64_t>(object);
    if (type == kCFNumberSInt64Type)
        memcpy(value, &n, sizeof n);
    else if (type == kCFNumberSInt32Type || type == kCFNumberIntType)
        *static_cast<int32_t *>(value) = int32_t(n);
    else
        misuse("CFNumberGetValue", "type %ld, which the stand-in does not know", type);
    return 1;
}

void CFRelease(CFTypeRef object) {
    if (object == nullptr)
        misuse("CFRelease", "there is no object");
    [reinterpret_cast<id>(const_cast<void *>(object)) release];
}

CFMutableDictionaryRef IOServiceMatching(const char *name) {
    return reinterpret_cast<CFMutableDictionaryRef>(make([SimtMatching class], std::make_shared<std::string>(name)));
}

io_service_t IOServiceGetMatchingService(mach_port_t, CFDictionaryRef matching) {
    id object = reinterpret_cast<id>(const_cast<__CFDictionary *>(matching));
    const Settings &settings = machine().settings;
    bool there = *body_of<std::string>(object) == "AGXAccelerator" && settings.unified && settings.devices > 0;
    [object release];
    held += there;
    return there ? GPU : 0;
}

CFTypeRef IORegistryEntryCreateCFProperty(io_registry_entry_t entry, CFStringRef key, CFAllocatorRef, IOOptionBits) {
    if (entry != GPU || held <= 0)
        misuse("IORegistryEntryCreateCFProperty", "the entry was released, or never there");
    if (strcmp(reinterpret_cast<const char *>(key), "gpu-core-count") != 0)
        return nullptr;
    return make([SimtNumber class], std::make_shared<int64_t>(CORES));
}

CFTypeRef IORegistryEntrySearchCFProperty(io_registry_entry_t entry, const io_name_t, CFStringRef key,
                                          CFAllocatorRef allocator, IOOptionBits options) {
    return IORegistryEntryCreateCFProperty(entry, key, allocator, options);
}

kern_return_t IOObjectRelease(io_object_t object) {
    if (object != GPU || held-- <= 0)
        misuse("IOObjectRelease", "the entry was released before, or never there");
    return 0;
}
