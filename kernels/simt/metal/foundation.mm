// Foundation's values: strings, arrays, errors, and what the process knows of its system.
#include <cstring>
#include <string>
#include <vector>

#include "classes.h"
#include "machine.h"
#include "misuse.h"

using namespace metal;

namespace {

// well_formed: the bytes are UTF-8. Foundation takes no others.
bool well_formed(const unsigned char *text, size_t size) {
    for (size_t i = 0; i < size;) {
        unsigned char first = text[i];
        size_t more = first < 0x80 ? 0 : first >> 5 == 6 ? 1 : first >> 4 == 14 ? 2 : first >> 3 == 30 ? 3 : size;
        if (more >= size - i)
            return false;
        for (i++; more > 0; more--, i++)
            if (text[i] >> 6 != 2)
                return false;
    }
    return true;
}

} // namespace

@implementation NSString

+ (instancetype)stringWithUTF8String:(const char *)bytes {
    if (bytes == nullptr)
        misuse("+[NSString stringWithUTF8String:]", "the text is null");
    return [[[self alloc] initWithBytes:bytes length:strlen(bytes) encoding:NSUTF8StringEncoding] autorelease];
}

- (instancetype)initWithBytes:(const void *)bytes length:(NSUInteger)length encoding:(NSStringEncoding)encoding {
    if (encoding != NSUTF8StringEncoding)
        misuse(self, _cmd, "the stand-in knows UTF-8 alone");
    if (!well_formed(static_cast<const unsigned char *>(bytes), length)) {
        [self release];
        return nil;
    }
    body(self) = std::make_shared<std::string>(static_cast<const char *>(bytes), length);
    return self;
}

- (const char *)UTF8String {
    return body_of<std::string>(self)->c_str();
}

@end

@implementation NSConstantString

- (const char *)UTF8String {
    return bytes;
}

- (instancetype)retain {
    return self;
}

- (oneway void)release {
}

- (instancetype)autorelease {
    return self;
}

@end

namespace {

struct Array {
    std::vector<id> objects;
    ~Array() {
        for (id object : objects)
            [object release];
    }
};

struct Failure {
    NSString *domain; // a constant
    NSInteger code;
    NSString *text;
    ~Failure() { [text release]; }
};

NSString *string(const std::string &text) {
    NSString *s = [[NSString alloc] initWithBytes:text.data() length:text.size() encoding:NSUTF8StringEncoding];
    return s != nil ? s : @"text that is not UTF-8";
}

} // namespace

NSArray *metal::array(const std::vector<id> &objects) {
    auto held = std::make_shared<Array>();
    for (id object : objects)
        held->objects.push_back([object retain]);
    return make([NSArray class], held);
}

NSError *metal::failure(NSString *domain, NSInteger code, const std::string &text) {
    return make([NSError class], std::shared_ptr<Failure>(new Failure{domain, code, string(text)}));
}

NSString *metal::text_of(const std::string &text) { return [string(text) autorelease]; }

@implementation NSArray

- (NSUInteger)count {
    return body_of<Array>(self)->objects.size();
}

- (id)objectAtIndex:(NSUInteger)index {
    const auto &objects = body_of<Array>(self)->objects;
    if (index >= objects.size())
        misuse(self, _cmd, "index %lu of %zu objects", index, objects.size());
    return objects[index];
}

@end

@implementation NSError

- (NSString *)domain {
    return body_of<Failure>(self)->domain;
}

- (NSInteger)code {
    return body_of<Failure>(self)->code;
}

- (NSString *)localizedDescription {
    return body_of<Failure>(self)->text;
}

@end

@implementation NSProcessInfo

+ (NSProcessInfo *)processInfo {
    return [[[self alloc] init] autorelease];
}

- (NSOperatingSystemVersion)operatingSystemVersion {
    const Settings &settings = machine().settings;
    return {settings.major, settings.minor, 0};
}

@end
