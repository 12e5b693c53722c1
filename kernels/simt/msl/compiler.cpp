#include "compiler.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include "../core/environment.h"
#include "../core/sanitizers.h"
#include "recursion.h"
#include "token.h"
#include "translate.h"

namespace fs = std::filesystem;

namespace msl {

namespace {

using Arguments = std::vector<std::string>;

constexpr const char *SOURCE = "program_source"; // as Metal calls a text without #line

// The language: Metal's, so far as flags make it. No C++ runtime, and halves that round after
// each operation.
const Arguments LANGUAGE = {
    "-std=c++14", "-fno-exceptions", "-fno-rtti", "-fno-lax-vector-conversions", "-fno-strict-aliasing",
    "-Xclang", "-cl-single-precision-constant", "-Xclang", "-ffloat16-excess-precision=none",
    "-Xclang", "-fbfloat16-excess-precision=none", "-fno-color-diagnostics", "-fno-caret-diagnostics",
    "-Wno-everything", "-Werror=c++17-extensions", "-Werror=c++20-extensions", "-Werror=vla", "-Werror=global-constructors"};

const Arguments WARNINGS = {"-Wall", "-Wextra", "-Werror", "-Wno-duplicate-decl-specifier", "-Wno-unknown-pragmas",
                            "-Wno-unused-const-variable", "-Wno-unused-function", "-Wno-pass-failed"};

#ifdef __x86_64__
// Where the processor converts halves and fuses products and sums, kernels are faster by far.
bool modern() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("fma"); }
#else
bool modern() { return true; }
#endif

// contraction says whether a product and a sum become one, which rounds once. Apple's compiler may do
// that wherever the text does not forbid it, so FERRUM_SIMT_CONTRACT=1 does it wherever it can: also
// between statements, since the operators of vectors are functions here. Halves stay as they are:
// there is no such instruction for them.
std::string contraction() {
    if (simt::number("FERRUM_SIMT_CONTRACT", 0, 0, 1) == 0)
        return "-ffp-contract=off";
    if (!modern())
        throw Failure("FERRUM_SIMT_CONTRACT=1 needs a processor with avx2, f16c and fma");
    return "-ffp-contract=fast-honor-pragmas";
}

// The variant of kernels is this code's own.
Arguments variant() {
    Arguments flags = {"-O2"};
    if (simt::ASAN)
        flags = {"-O1", "-fno-omit-frame-pointer", "-fsanitize=address,bounds,alignment", "-fno-sanitize-recover=all"};
    if (simt::TSAN) {
        flags = {"-O1", "-fno-omit-frame-pointer", "-fsanitize=thread"};
        const char *only = getenv("FERRUM_SIMT_RACES");
        std::string memory = only ? only : "";
        if (memory == "device" || memory == "threadgroup")
            flags.push_back(memory == "device" ? "-DMSL_ONLY=1" : "-DMSL_ONLY=2"); // as mem_flags
        else if (!memory.empty())
            throw Failure("FERRUM_SIMT_RACES is \"" + memory + "\", and may be device or threadgroup");
    }
#ifdef __x86_64__
    if (modern())
        flags.push_back("-march=x86-64-v3");
#endif
    flags.push_back(contraction());
    return flags;
}

std::string read(const fs::path &file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

void write(const std::string &file, const std::string &text) {
    std::ofstream out(file, std::ios::binary);
    if (!(out << text).flush())
        throw Failure("cannot write " + file);
}

// own is the file that this code was loaded from.
fs::path own() {
    Dl_info info;
    if (!dladdr(reinterpret_cast<void *>(&own), &info) || !info.dli_fname)
        return "/proc/self/exe";
    std::error_code none;
    fs::path path = fs::canonical(info.dli_fname, none);
    return none ? fs::canonical("/proc/self/exe", none) : path;
}

std::string find_headers() {
    for (fs::path at = own(); at != at.parent_path(); at = at.parent_path()) {
        fs::path headers = at.parent_path() / "kernels/simt/msl";
        if (fs::exists(headers / "prelude.h"))
            return headers;
    }
    throw Failure("there is no kernels/simt/msl, whose headers kernels are compiled with, in a folder above " + own().string());
}

// run runs a program and returns what it says on either output; good tells of its success.
std::string run(const Arguments &command, const Folder &folder, bool &good) {
    std::vector<char *> argv;
    for (const std::string &argument : command)
        argv.push_back(const_cast<char *>(argument.c_str()));
    argv.push_back(nullptr);
    std::string said = folder.path("said");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    pid_t pid;
    int wrong = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (wrong)
        throw Failure("Metal kernels are compiled by " + command[0] + ", which does not start (" + strerror(wrong) +
                      "): install clang 19, or name a clang++ by FERRUM_SIMT_CXX");
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return read(said);
}

void demand(const Arguments &command, const Folder &folder) {
    bool good;
    std::string said = run(command, folder, good);
    if (!good)
        throw Failure(said.empty() ? command[0] + " failed without a word" : said);
}

// release is what a compiler says of itself, which is asked once: another release by the same
// name makes other libraries.
const std::string &release(const std::string &program) {
    static std::mutex &mutex = *new std::mutex;
    static auto &known = *new std::map<std::string, std::string>;
    std::lock_guard<std::mutex> lock(mutex);
    std::string &said = known[program];
    if (said.empty()) {
        bool good;
        said = run({program, "--version"}, Folder(fs::temp_directory_path()), good);
    }
    return said;
}

Arguments operator+(Arguments a, const Arguments &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

} // namespace

Folder::Folder(const std::string &parent) {
    std::error_code none;
    fs::create_directories(parent, none);
    path_ = parent + "/new-XXXXXX";
    if (!mkdtemp(path_.data()))
        throw Failure("cannot make a folder in " + parent + ": " + strerror(errno));
}

Folder::~Folder() {
    std::error_code none;
    fs::remove_all(path_, none);
}

Compiler::Compiler(unsigned version) : version_(version), headers_(find_headers()) {
    const char *named = getenv("FERRUM_SIMT_CXX");
    program_ = named && *named ? named : "clang++-19";
}

std::string Compiler::default_cache() { return own().parent_path() / "msl-cache"; }

Arguments Compiler::common() const {
    unsigned number = 100 * (version_ >> 16) + 10 * (version_ & 0xffff);
    return Arguments{program_, "-x", "c++", "-D__METAL_VERSION__=" + std::to_string(number)} + LANGUAGE;
}

Arguments Compiler::prelude() const { return {"-isystem", headers_, "-include", headers_ + "/prelude.h"}; }

std::string Compiler::identity() const {
    std::string all = release(program_);
    for (const std::string &argument : common() + variant())
        all += argument + '\n';
    std::vector<fs::path> files = {fs::path(headers_) / "../simt.h", fs::path(headers_) / "../core/thread.h"};
    for (const fs::directory_entry &file : fs::recursive_directory_iterator(headers_))
        if (file.is_regular_file())
            files.push_back(file);
    std::sort(files.begin(), files.end());
    for (const fs::path &file : files)
        all += file.lexically_relative(headers_).string() + '\n' + read(file);
    return all;
}

// The preprocessor sees empty headers: what the library's words are made of must not be
// translated.
std::string Compiler::translated(const std::string &source, const Folder &folder) const {
    std::string in = folder.path("source"), out = folder.path("preprocessed");
    write(in, "#line 1 \"" + std::string(SOURCE) + "\"\n" + source);
    demand(common() + Arguments{"-E", "-undef", "-nostdinc", "-nostdinc++", "-DMSL_PREPROCESSING", "-isystem",
                                headers_ + "/include", in, "-o", out},
           folder);
    try {
        return translate(read(out));
    } catch (const Error &e) {
        throw Failure(e.what() + std::string("\n"));
    }
}

void Compiler::build(const std::string &translated, const std::string &library, const Folder &folder) const {
    std::string in = folder.path("translated.cpp"), out = folder.path("library.so");
    std::string root = fs::path(headers_).parent_path().parent_path().parent_path();
    write(in, translated);
    demand(common() + variant() + prelude() +
               Arguments{"-g1", "-gdwarf-4", "-ffile-prefix-map=" + root + "/=", "-fPIC", "-fvisibility=hidden", "-shared", "-nostdlib++",
                         "--rtlib=compiler-rt", "--unwindlib=libgcc", in, "-lm", "-o", out},
           folder);
    std::error_code wrong;
    fs::rename(out, library, wrong);
    if (wrong)
        throw Failure("cannot write " + library + ": " + wrong.message());
}

void Compiler::check(const std::string &translated, const Folder &folder) const {
    std::string in = folder.path("translated.cpp"), out = folder.path("checked.ll");
    write(in, translated);
    demand(common() + WARNINGS + prelude() + Arguments{"-DMSL_AS", "-S", "-emit-llvm", in, "-o", out}, folder);
    std::string name = recursion(read(out));
    if (!name.empty())
        throw Failure("Metal has no recursion: " + name + " calls itself\n");
}

} // namespace msl
