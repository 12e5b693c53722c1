// Libraries of Metal kernels, compiled for this machine when they are asked for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../simt.h"
#include "table.h"

namespace msl {

// Entry is a kernel with what a launch of it must bring: params[i] is the address of the
// pointer to the memory of arguments[i], null where its guard leaves it out.
struct Entry {
    simt::Kernel kernel;
    std::vector<Argument> arguments;
    unsigned most_threads;           // in a threadgroup
    size_t shared;                   // bytes of threadgroup memory
    std::vector<unsigned> constants; // the function constants, all bool, that its library declares
};

// Program is a compiled library. It stays loaded, and in the cache, until the process ends.
class Program {
public:
    // compile translates and compiles a source of one language version, 0x30000 or 0x30001 for
    // 3.0 and 3.1. It returns null when that fails, with the compiler's text in error, by lines
    // as the source's #line directives name them. What was compiled is kept in the process, and
    // in the folder that FERRUM_SIMT_CACHE names, by the hash of everything that it depends on.
    // The compiler is FERRUM_SIMT_CXX or clang++-19. FERRUM_SIMT_CONTRACT=1 fuses products and sums. Under ThreadSanitizer FERRUM_SIMT_RACES=device
    // or threadgroup has races looked for in that memory alone, and barriers order what their
    // flags say; without, any barrier orders all. It is safe for concurrent use.
    static std::shared_ptr<const Program> compile(const std::string &source, unsigned version, std::string &error);

    // find returns null for a name that is not a kernel's.
    const Entry *find(const std::string &name) const;

    const std::map<std::string, Entry> &entries() const { return entries_; }

private:
    static std::shared_ptr<const Program> load(const std::string &file, std::string &error);

    std::map<std::string, Entry> entries_;
};

} // namespace msl
