#include <algorithm>
#include <cstring>
#include <vector>

#include "../simt.h"

namespace simt {

namespace {

bool before(const Kernel &a, const Kernel &b) { return std::strcmp(a.name, b.name) < 0; }

// Inside a function, because other files add to it before main.
std::vector<Kernel> &registry() {
    static std::vector<Kernel> kernels;
    return kernels;
}

} // namespace

void add(const Kernel &kernel) {
    std::vector<Kernel> &all = registry();
    all.insert(std::lower_bound(all.begin(), all.end(), kernel, before), kernel);
}

const Kernel *find(const char *name) {
    Kernel wanted{};
    wanted.name = name;
    std::vector<Kernel> &all = registry();
    auto at = std::lower_bound(all.begin(), all.end(), wanted, before);
    return at != all.end() && std::strcmp(at->name, name) == 0 ? &*at : nullptr;
}

size_t kernels(const Kernel **first) {
    *first = registry().data();
    return registry().size();
}

} // namespace simt
