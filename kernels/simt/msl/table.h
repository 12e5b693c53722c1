// What a compiled library of kernels and the program that loads it know of each other. The
// library has no symbols of the core: it is handed what it calls, so it does not matter how the
// core was loaded, nor whether another one is in the process.
#pragma once

#include "../core/thread.h"

namespace msl {

// Core is what kernels call.
struct Core {
    simt::Thread *(*current)();
    void (*barrier)(bool orders, simt::Site site);
    void (*meet)(unsigned mask, void *brought, simt::Collective work, bool orders, simt::Site site);
    void (*fault)(const char *what, simt::Site site);
};

// Argument is a buffer that a kernel takes.
struct Argument {
    unsigned index;
    bool constant_space; // a constant buffer: what setBytes may give it
    bool writable;
    size_t size;         // of what a reference refers to; 0 for a pointer
    int guard;           // the function constant that must be true for it to exist; -1: none
};

// Function is an entry point as its library tells of it.
struct Function {
    const char *name;
    void (*call)(void *const *params); // params[i] is the address of the pointer to argument i's memory
    const Argument *arguments;
    unsigned count;
    unsigned threads; // at most in a threadgroup
};

// Shared is the threadgroup memory that a function declares.
struct Shared {
    const char *function;
    size_t bytes;
};

struct Table {
    const Function *functions;
    size_t count;
    const Shared *shared;
    size_t shared_count;
    const unsigned *constants; // indices of the function constants that it declares
    size_t constants_count;
};

// The one symbol of a library: it takes the core, and tells what is in it.
using Open = const Table *(*)(const Core *core);
constexpr char OPEN[] = "msl_open";

} // namespace msl
