// The detectors find the bugs of planted/ in Metal's words and nothing in their correct twins.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "msl_rig.h"
#include "../planted_rig.h"

namespace {

using namespace planted;

const Bug BUGS[] = {
    {"load", WRONG, nullptr, RACE, "barrier.metal"},
    {"reuse", WRONG, nullptr, RACE, "barrier.metal"},
    {"lockstep", WRONG, nullptr, RACE, "simdgroup.metal"},
    {"matrix", WRONG, nullptr, RACE, "simdgroup.metal"},
    {"map", WRONG, WRONG, WRONG, nullptr},
    {"lane", "a lane that is not there", "a lane that is not there", "a lane that is not there", "simdgroup.metal"},
    {"flags_device", nullptr, nullptr, RACE, "flags.metal"},
    {"flags_threadgroup", nullptr, nullptr, RACE, "flags.metal"},
    {"overlap", nullptr, nullptr, RACE, "grid.metal"},
    {"branch", "wait at the barrier", "wait at the barrier", "wait at the barrier", "divergence.metal"},
    {"early", "1 have returned", "1 have returned", "1 have returned", "divergence.metal"},
    {"buffer", CRASH, HEAP, nullptr, "bounds.metal"},
    {"page", CRASH, "AddressSanitizer: SEGV", nullptr, "bounds.metal"},
    {"slack", "dynamic shared memory", POISONED, nullptr, nullptr},
    {"sized", CRASH, BOUNDS, nullptr, "bounds.metal"},
    {"missing", CRASH, "AddressSanitizer: SEGV", nullptr, "bounds.metal"},
};

const std::string FOLDER = "kernels/simt/test/metal/planted/";

// text is a file of planted/, under the name that reports give it.
std::string text(const std::string &name) {
    namespace fs = std::filesystem;
    const std::string path = FOLDER + name;
    fs::path root = fs::canonical("/proc/self/exe").parent_path();
    while (!fs::exists(root / path) && root.has_relative_path())
        root = root.parent_path();
    std::ifstream in(root / path);
    demand(in.good());
    std::ostringstream all;
    all << "#line 1 \"" << path << "\"\n" << in.rdbuf();
    return all.str();
}

int child(const std::string &name) {
    if (size_t at = name.find("flags_"); at != name.npos)
        setenv("FERRUM_SIMT_RACES", name.c_str() + at + strlen("flags_"), 1);
    std::string error;
    for (const char *file : {"barrier.metal", "simdgroup.metal", "divergence.metal", "bounds.metal", "grid.metal", "flags.metal"}) {
        auto program = msl::Program::compile(text("metal.h") + text(file), 0x30000, error);
        fprintf(stderr, "%s", error.c_str());
        demand(program != nullptr);
        if (const msl::Entry *entry = program->find(name))
            return passes([&](float *in, float *out, simt::Options options, char *report, size_t size) {
                float *absent = nullptr;
                void *params[] = {&in, &out, &absent};
                uint64_t constants[] = {0};
                return simt::run({&entry->kernel, {BLOCKS}, {THREADS}, entry->shared, params, constants}, options, report, size);
            });
    }
    fprintf(stderr, "no kernel %s\n", name.c_str());
    return EXIT_FAILURE;
}

} // namespace

int main(int argc, char **argv) { return argc == 2 ? child(argv[1]) : check_all(BUGS, FOLDER); }
