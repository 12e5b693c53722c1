// What the core must tell the sanitizers, for which a switch of stacks is a surprise.
// With __SANITIZE_ADDRESS__ everything is built with AddressSanitizer. With SIMT_TSAN the
// kernels are built with ThreadSanitizer and the core is not: each GPU thread is one of its
// fibers, switched without synchronisation, so only barriers order them.
#pragma once

#include <cstddef>
#include <memory>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SIMT_TSAN
#include <sanitizer/tsan_interface.h>

// Of the runtime, which has no header for them.
extern "C" {
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void __tsan_read_range(void *p, unsigned long size);
void __tsan_write_range(void *p, unsigned long size);
}
#endif

namespace simt {

#ifdef __SANITIZE_ADDRESS__
constexpr bool ASAN = true;
inline void forbid(const void *p, size_t size) { __asan_poison_memory_region(p, size); }
inline void allow(const void *p, size_t size) { __asan_unpoison_memory_region(p, size); }
#else
constexpr bool ASAN = false;
inline void forbid(const void *, size_t) {}
inline void allow(const void *, size_t) {}
#endif

#ifdef SIMT_TSAN
constexpr bool TSAN = true;

// While an Unseen lives, the race check takes no notice of what its thread does. The core is
// not instrumented, but the check sees library calls, as those for memory, all the same.
class Unseen {
public:
    Unseen() {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    ~Unseen() {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
};

// What the core reads and writes for a thread, as if the thread did.
inline void seen_read(const void *p, size_t size) { __tsan_read_range(const_cast<void *>(p), size); }
inline void seen_write(void *p, size_t size) { __tsan_write_range(p, size); }

// What was done before a release of an address is done before what follows an acquire of it.
inline void release(void *p) { __tsan_release(p); }
inline void acquire(void *p) { __tsan_acquire(p); }

// An Order is a place where threads of a block meet, for the race check. Meetings take turns
// with two clocks: a thread that hurries on to the next meeting must not seem to have
// ordered what it did on the way. renew forgets all order, for the next block.
class Order {
public:
    Order() { renew(); }
    void release(unsigned turn) { __tsan_release(&clocks_[turn % 2]); }
    void acquire(unsigned turn) { __tsan_acquire(&clocks_[turn % 2]); }
    void renew() { clocks_ = std::make_unique<Clock[]>(2); }

private:
    struct alignas(8) Clock {
        char at[8]; // its address is all that counts
    };
    std::unique_ptr<Clock[]> clocks_; // from the heap, whose freeing forgets them
};
#else
constexpr bool TSAN = false;

class Unseen {
public:
    Unseen() {}
};

inline void seen_read(const void *, size_t) {}
inline void seen_write(void *, size_t) {}
inline void release(void *) {}
inline void acquire(void *) {}

class Order {
public:
    void release(unsigned) {}
    void acquire(unsigned) {}
    void renew() {}
};
#endif

} // namespace simt
