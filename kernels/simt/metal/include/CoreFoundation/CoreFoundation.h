// What the Metal backend uses of Apple's Core Foundation: a number that the I/O registry holds.
// A comment is the page below https://developer.apple.com/documentation/corefoundation/.
#pragma once

#ifdef __cplusplus
#define CF_EXPORT extern "C"
#else
#define CF_EXPORT extern
#endif

typedef unsigned char Boolean;                         // of MacTypes.h
typedef long CFIndex;                                  // cfindex
typedef const void *CFTypeRef;                         // cftyperef
typedef const struct __CFAllocator *CFAllocatorRef;    // cfallocatorref
typedef const struct __CFString *CFStringRef;          // cfstringref
typedef const struct __CFNumber *CFNumberRef;          // cfnumberref
typedef const struct __CFDictionary *CFDictionaryRef;  // cfdictionaryref
typedef struct __CFDictionary *CFMutableDictionaryRef; // cfmutabledictionaryref

typedef CFIndex CFNumberType; // cfnumbertype, an enum over CFIndex
enum {
    kCFNumberSInt32Type = 3, // cfnumbertype/sint32type
    kCFNumberSInt64Type = 4, // cfnumbertype/sint64type
    kCFNumberIntType = 9,    // cfnumbertype/inttype
};

CF_EXPORT const CFAllocatorRef kCFAllocatorDefault; // kcfallocatordefault

CF_EXPORT CFStringRef __CFStringMakeConstantString(const char *text); // what CFSTR calls
#define CFSTR(text) __CFStringMakeConstantString("" text "")          // cfstr

CF_EXPORT Boolean CFNumberGetValue(CFNumberRef number, CFNumberType type, void *value); // cfnumbergetvalue(_:_:_:)
CF_EXPORT void CFRelease(CFTypeRef object);                                             // cfrelease
