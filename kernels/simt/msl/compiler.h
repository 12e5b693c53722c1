// The C++ compiler, which makes shared libraries of kernels at run time.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace msl {

// Failure is why a source does not become a library; what() is for its author.
class Failure : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Folder is a new folder that goes away with everything in it.
class Folder {
public:
    explicit Folder(const std::string &parent); // which is made if it is not there
    ~Folder();
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;

    std::string path(const std::string &name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

// Compiler knows where the dialect's headers are: in the repository that this code's own
// library lies in.
class Compiler {
public:
    // For one language version, as Program::compile takes it. Throws Failure without headers.
    explicit Compiler(unsigned version);

    // identity is everything but the source that a library depends on.
    std::string identity() const;

    // Where libraries are kept when nobody says otherwise.
    static std::string default_cache();

    // translated is the C++ of a source; folder is for files on the way.
    std::string translated(const std::string &source, const Folder &folder) const;

    // build makes a library of what translated gave, check only looks at it, with address
    // spaces and all warnings. All throw Failure.
    void build(const std::string &translated, const std::string &library, const Folder &folder) const;
    void check(const std::string &translated, const Folder &folder) const;

private:
    std::vector<std::string> common() const;
    std::vector<std::string> prelude() const;

    unsigned version_;
    std::string headers_; // kernels/simt/msl
    std::string program_;
};

} // namespace msl
