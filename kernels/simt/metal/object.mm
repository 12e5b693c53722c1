// NSObject and NSAutoreleasePool. Freed objects become ghosts, which end the process with the
// message they get; the memory of the oldest is given back.
#include "object.h"

#include <atomic>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>
#include <vector>

#include "misuse.h"

__attribute__((objc_root_class))
@interface SimtGhost {
    Class isa;
}
@end

@implementation SimtGhost
@end

namespace metal {
namespace {

Class ghost() { return objc_getClass("SimtGhost"); }

// Prefix lies before each object.
struct alignas(16) Prefix {
    std::shared_ptr<void> state;
    std::atomic<int64_t> references{1};
    Class was = nil; // of a ghost: its class in life
};

Prefix &prefix(id object) { return reinterpret_cast<Prefix *>(object)[-1]; }

// Population is who lives, and the last that died.
class Population {
    std::mutex mutex;
    std::map<Class, int64_t> living;
    std::deque<id> ghosts;

public:
    void born(Class of) {
        std::lock_guard<std::mutex> lock(mutex);
        living[of]++;
    }

    void died(id object) {
        Class of = object_getClass(object);
        prefix(object).was = of;
        object_setClass(object, ghost());
        std::lock_guard<std::mutex> lock(mutex);
        living[of]--;
        ghosts.push_back(object);
        if (ghosts.size() > 1 << 16) {
            Prefix *oldest = &prefix(ghosts.front());
            oldest->~Prefix();
            free(oldest);
            ghosts.pop_front();
        }
    }

    std::map<std::string, int64_t> count() {
        std::lock_guard<std::mutex> lock(mutex);
        std::map<std::string, int64_t> counts;
        for (auto [of, n] : living)
            counts[class_getName(of)] = n;
        return counts;
    }
};

Population &population() {
    static Population *p = new Population; // never destroyed: objects may outlive main
    return *p;
}

// refuse gets the messages that the receiver has no method for.
IMP refuse(id receiver, SEL call) {
    if (object_getClass(receiver) == ghost())
        misuse(prefix(receiver).was == nil ? receiver : (id)prefix(receiver).was, call, "sent to an object that was freed");
    misuse(receiver, call, "this object has no such method");
}

__attribute__((constructor)) void hook() { __objc_msg_forward2 = refuse; }

thread_local std::vector<id> waiting;              // for the end of a pool
thread_local std::vector<NSAutoreleasePool *> pools; // the innermost last

} // namespace

std::shared_ptr<void> &body(id object) { return prefix(object).state; }

id make(Class of, std::shared_ptr<void> state) {
    id object = [[of alloc] init];
    body(object) = std::move(state);
    return object;
}

int64_t references(id object) { return prefix(object).references; }

std::map<std::string, int64_t> census() { return population().count(); }

} // namespace metal

using namespace metal;

@implementation NSObject

+ (instancetype)alloc {
    void *memory = calloc(1, sizeof(Prefix) + class_getInstanceSize(self));
    if (memory == nullptr)
        return nil;
    id object = reinterpret_cast<id>(new (memory) Prefix + 1);
    object_setClass(object, self);
    population().born(self);
    return object;
}

+ (Class)class {
    return self;
}

+ (instancetype)new {
    return [[self alloc] init];
}

- (instancetype)init {
    return self;
}

- (instancetype)retain {
    prefix(self).references++;
    return self;
}

- (oneway void)release {
    if (--prefix(self).references == 0)
        [self dealloc];
}

- (instancetype)autorelease {
    if (pools.empty())
        misuse(self, _cmd, "there is no pool on this thread, so that the object leaks");
    waiting.push_back(self);
    return self;
}

- (BOOL)respondsToSelector:(SEL)selector {
    return class_respondsToSelector(object_getClass(self), selector);
}

- (void)dealloc {
    std::shared_ptr<void> state = std::move(prefix(self).state); // ends last
    population().died(self);
}

@end

@implementation NSAutoreleasePool

- (instancetype)init {
    body(self) = std::make_shared<size_t>(waiting.size());
    pools.push_back(self);
    return self;
}

// Pools inside of this one that nobody drained end with it.
- (void)drain {
    bool mine = false;
    for (NSAutoreleasePool *pool : pools)
        mine = mine || pool == self;
    if (!mine)
        misuse(self, _cmd, "the pool is another thread's");
    size_t left = *body_of<size_t>(self);
    while (waiting.size() > left) {
        id object = waiting.back();
        waiting.pop_back();
        [object release];
    }
    NSAutoreleasePool *last;
    do {
        last = pools.back();
        pools.pop_back();
        [last dealloc];
    } while (last != self);
}

- (instancetype)retain {
    misuse(self, _cmd, "a pool belongs to its place");
}

- (oneway void)release {
    [self drain];
}

@end
