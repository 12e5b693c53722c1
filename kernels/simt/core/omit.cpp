// Calls that tests leave out.
#include <algorithm>
#include <mutex>
#include <vector>

#include "sanitizers.h"
#include "thread.h"

namespace simt {

int omitted = -1;

namespace {

std::mutex mutex;
std::vector<Site> met;

} // namespace

bool omit_met(const Site &site) {
    Unseen unseen;
    std::lock_guard<std::mutex> lock(mutex);
    const auto at = std::find_if(met.begin(), met.end(), [&](const Site &other) { return !(other != site); });
    const int number = int(at - met.begin());
    if (at == met.end())
        met.push_back(site);
    return number == omitted;
}

const Site *omitted_site() { return omitted >= 0 && size_t(omitted) < met.size() ? &met[omitted] : nullptr; }

} // namespace simt
