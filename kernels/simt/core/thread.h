// What a running GPU thread sees of the core: who it is, and the ways to meet others.
// The headers of a dialect, such as kernels/simt/cuda, say its own words with these.
#pragma once

#include "../simt.h"

namespace simt {

constexpr unsigned WARP = 32, NAMED = 16, GROUPS = 8; // lanes; named barriers and groups of a block

// Site is a place in a kernel's source. As a default argument, Site{} is its caller's.
struct Site {
    const char *file;
    int line;

    Site(const char *file = __builtin_FILE(), int line = __builtin_LINE()) : file(file), line(line) {}

    bool operator!=(const Site &other) const {
        return line != other.line || (file != other.file && __builtin_strcmp(file, other.file) != 0);
    }
};

// Surroundings are what the threads of a block have in common.
struct Surroundings {
    Dim block, grid, size;   // this block's index, blocks in the grid, threads in the block
    unsigned char *shared;   // dynamic shared memory, aligned to 128 bytes
    bool late_copies;
    const void *constants;   // of the launch
    size_t shared_size;      // bytes of shared
};

// Thread is one GPU thread: its index in the block, and in its warp.
struct Thread {
    Dim index;
    unsigned lane;
    const Surroundings *around;
};

// current is the thread that this OS thread runs. __thread, because a thread_local that
// another file defines is reached through a function. The address of a thread variable may
// be kept in a register, so code that a fiber runs must not go on with one after its fiber
// was handed to another OS thread: only Block does that, between blocks.
extern __thread Thread *current;

// barrier waits for all threads of the block, which must come to the same site. With orders,
// what a thread wrote before is seen by the others afterwards; otherwise the race check takes
// them as unordered, as hardware may.
void barrier(bool orders, Site site);

// A Collective does the work of all lanes of a mask at once: lanes[l] is what lane l brought,
// and where it will look for its result.
using Collective = void (*)(void *const *lanes, unsigned mask);

// meet waits for the lanes of mask that exist; they must come to the same site. The last to
// come runs work for all of them. orders is as above.
void meet(unsigned mask, void *brought, Collective work, bool orders, Site site);

// count waits for a number of threads of the block at named barrier id, and orders memory; a thread that does not wait is only counted.
void count(unsigned id, unsigned threads, bool waits, Site site);

// gather waits for a number of threads of a group, which must come to the same site. The last to come runs work for what they brought,
// each at its number. The race check takes them as unordered, as hardware may.
using Work = void (*)(void *const *brought, unsigned threads);
void gather(unsigned group, unsigned threads, unsigned number, void *brought, Work work, Site site);

// pause waits until some thread of the block calls wake, for what a dialect keeps in shared memory.
void pause(Site site);
void wake();

// yield lets others go on first.
void yield();

// omit reports whether a test leaves out the call at a site, to see that a run without it fails: the one that was met as number omitted.
// Without such a test omitted is -1.
extern int omitted;
bool omit_met(const Site &site);
inline bool omit(const Site &site) { return omitted >= 0 && omit_met(site); }
const Site *omitted_site(); // null: no such one was met

// Dialect is what a dialect keeps of a block besides. begin is called before a block, and end after one that returned, on its OS
// thread: end says what is wrong with what is left, or null.
struct Dialect {
    void (*begin)() = nullptr;
    const char *(*end)() = nullptr;
};
extern Dialect dialect;

// fault ends the launch: this thread did what hardware does not define.
[[noreturn]] void fault(const char *what, Site site);

// A Copy is bytes under way, from null as zeros.
struct Copy {
    void *to;
    const void *from;
    unsigned bytes;
};

// The asynchronous copies of the current thread, for a dialect that does the memory accesses
// itself, where the sanitizers see them: begin_copy adds one to the open group, close_copies
// closes the group, and take_copy hands out, one by one, those of all but the last pending
// closed groups, until it returns false.
void begin_copy(Copy copy);
void close_copies();
bool take_copy(unsigned pending, Copy &copy);

} // namespace simt
