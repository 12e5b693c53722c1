// Running Metal kernels that are given as text.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "../../msl/program.h"
#include "../demand.h"

inline bool says(const std::string &report, const std::string &words) { return report.find(words) != report.npos; }

// compile demands that a source compiles. Its lines are those of t.metal.
inline std::shared_ptr<const msl::Program> compile(const std::string &source, int line = __builtin_LINE()) {
    std::string error;
    const std::string head = "#include <metal_stdlib>\nusing namespace metal;\n#line 1 \"t.metal\"\n";
    auto program = msl::Program::compile(head + source, 0x30001, error);
    if (!program)
        fprintf(stderr, "%s\n", error.c_str());
    demand(program != nullptr, line);
    return program;
}

// Run is one launch of a kernel, in one threadgroup unless groups says otherwise.
struct Run {
    const msl::Entry *entry;
    unsigned threads = 32;
    simt::Dim groups = {};
    std::vector<uint64_t> constants = {};
    uint64_t seed = 3;

    // operator() returns what was wrong; the buffers are in the order of the kernel's arguments.
    template <class... T> std::string operator()(T *...buffers) const {
        const void *pointers[] = {buffers...};
        std::vector<void *> params;
        for (const void *&p : pointers)
            params.push_back(&p);
        demand(params.size() == entry->kernel.count);
        char report[512] = "";
        simt::Launch launch{&entry->kernel, groups, {threads}, entry->shared, params.data(), constants.data()};
        bool good = simt::run(launch, {seed, false, 1}, report, sizeof report);
        demand(good == (report[0] == 0));
        return report;
    }
};
