#include "types.h"

#include <set>

namespace msl {

namespace {

const std::set<std::string> SCALARS = {"uchar", "ushort", "uint", "ulong", "half", "bfloat"};
const std::set<std::string> SHARED = {"char", "short", "int", "long", "float"}; // with C++

} // namespace

bool is_vector(const std::string &word) {
    if (word.empty() || word.back() < '2' || word.back() > '4')
        return false;
    std::string element = word.substr(0, word.size() - 1);
    return SCALARS.count(element) || SHARED.count(element);
}

bool is_type(const std::string &word) { return is_vector(word) || SCALARS.count(word); }

} // namespace msl
