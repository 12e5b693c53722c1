// What every object of the stand-in has: a count of references, a C++ body, and a grave that
// knows who lies in it.
#pragma once

#include <objc/message.h>
#include <objc/runtime.h>

#include <map>
#include <memory>
#include <string>

#import <Foundation/Foundation.h>

// For the classes here alone, as in Apple's headers it is for all.
@interface NSObject (Life)
+ (Class)class;
- (void)dealloc;
@end

// What the compiler makes of @"…" here. It lies in the program and has no body.
@interface NSConstantString : NSString {
    const char *bytes;
    unsigned length;
}
@end

namespace metal {

// body is the state of an object, null until its maker sets it. It ends with the object.
std::shared_ptr<void> &body(id object);

template <class T> std::shared_ptr<T> body_of(id object) { return std::static_pointer_cast<T>(body(object)); }

// make is a new object of a class around its state, owned by the caller.
id make(Class of, std::shared_ptr<void> state);

int64_t references(id object);

// census counts the objects that are alive, by the names of their classes.
std::map<std::string, int64_t> census();

} // namespace metal
