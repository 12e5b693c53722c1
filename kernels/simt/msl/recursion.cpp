#include "recursion.h"

#include <cstdlib>
#include <cxxabi.h>
#include <map>
#include <set>
#include <sstream>
#include <vector>

namespace msl {

namespace {

using Calls = std::map<std::string, std::set<std::string>>; // by function, what it calls

// function is the name behind the first @ of a line, up to its parameters.
std::string function(const std::string &line) {
    size_t at = line.find('@');
    return at == line.npos ? "" : line.substr(at + 1, line.find('(', at) - at - 1);
}

Calls calls(const std::string &llvm) {
    Calls all;
    std::istringstream lines(llvm);
    std::string line, inside;
    while (std::getline(lines, line))
        if (line.compare(0, 7, "define ") == 0)
            inside = function(line);
        else if (line.find(" call ") != line.npos)
            all[inside].insert(function(line));
    return all;
}

// Walk follows calls and remembers the way.
struct Walk {
    const Calls &calls;
    std::set<std::string> done, way;

    std::string from(const std::string &name) {
        if (way.count(name))
            return name;
        if (!done.insert(name).second || !calls.count(name))
            return "";
        way.insert(name);
        for (const std::string &callee : calls.at(name)) {
            std::string found = from(callee);
            if (!found.empty())
                return found;
        }
        way.erase(name);
        return "";
    }
};

std::string readable(const std::string &mangled) {
    int status;
    char *text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
    std::string name = status == 0 ? text : mangled;
    free(text);
    return name;
}

} // namespace

std::string recursion(const std::string &llvm) {
    const Calls all = calls(llvm);
    Walk walk{all, {}, {}};
    for (const auto &[name, callees] : all) {
        std::string found = walk.from(name);
        if (!found.empty())
            return readable(found);
    }
    return "";
}

} // namespace msl
