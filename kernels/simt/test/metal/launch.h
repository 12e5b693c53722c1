// launch for the Metal kernels, in place of rig.h's for CUDA's: a kernel is compiled for its
// types from kernels/metal, and its function constants are chosen as the host would. A call
// that may be wide is not, now and then: the slow way is right for all.
#pragma once

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "../../msl/program.h"

namespace rig {

using Buffers = std::vector<const void *>;
// Constants are those of abi.h and, behind them, the bits of the numbers of both storage types (attend.h).
constexpr size_t STORED_BITS = 4;
using Constants = std::array<uint64_t, FKV_CONSTANTS + 2 * STORED_BITS>;

// Symbol is a kernel's name and what it says of the instance: "fkv_merge_f32_f16".
struct Symbol {
    std::string name, family;
    std::vector<std::string> types, dims; // as the name has them
    bool whole = false;                   // the family is compiled as it is

    explicit Symbol(const std::string &full) : name(full) {
        std::istringstream words(name.substr(4));
        for (std::string word; std::getline(words, word, '_');) {
            if (word == "f16" || word == "bf16" || word == "f32" || (word == "quant" && !types.empty())) {
                types.push_back(word);
            } else if (word.find_first_not_of("0123456789") == std::string::npos) {
                dims.push_back(word);
            } else {
                family += (family.empty() ? "" : "_") + word;
            }
        }
        if (family == "attend_decode" && (types[0] == "f32" || dims[0] == "576")) {
            family = types[0] == "f32" ? "attend_decode_f32" : "attend_latent";
        }
        const std::map<std::string, std::string> homes = {
            {"copy_blocks", "blocks"}, {"copy_blocks_narrow", "blocks"}, {"move_slots", "blocks"}, {"move_slots_narrow", "blocks"}, {"clear_mass", "blocks"},
            {"copy", "fill"},          {"copy_bits", "fill"},            {"probe_mma", "probe"},   {"probe_read", "probe"},
        };
        if (const auto home = homes.find(family); home != homes.end()) {
            family = home->second, whole = true;
            types.clear();
        }
    }

    // width is the elements of a run that fills 16 bytes of the narrowest type.
    uint32_t width() const {
        return std::all_of(types.begin(), types.end(), [](const std::string &t) { return t == "f32"; }) ? 4 : 8;
    }

    // macros are the lines that the host puts in front of the family's source.
    std::string macros() const {
        const std::map<std::string, const char *> words = {{"f16", "half"}, {"bf16", "bfloat"}, {"f32", "float"}, {"quant", "fkv::Quantized"}};
        std::string text = whole ? "" : "#define FKV_NAME " + name + "\n";
        for (size_t i = 0; i < types.size(); i++) {
            text += std::string("#define ") + (i == 0 ? "FKV_IN " : "FKV_OUT ") + words.at(types[i]) + "\n";
        }
        for (size_t i = 0; i < dims.size(); i++) {
            text += std::string("#define ") + (i == 0 ? "FKV_KDIM " : "FKV_VDIM ") + dims[i] + "\n";
        }
        return text + (has("quant") ? "#define FKV_QUANT 1\n" : "") + (bfloat() ? "#define FKV_BFLOAT 1\n" : "");
    }
    bool bfloat() const { return has("bf16"); }
    bool has(const char *type) const { return std::count(types.begin(), types.end(), type) != 0; }
};

// sources is kernels/metal of the repository in which this program lies.
inline std::filesystem::path sources() {
    std::filesystem::path folder = std::filesystem::canonical("/proc/self/exe");
    while (folder != folder.parent_path() && !std::filesystem::exists(folder / "kernels/metal")) {
        folder = folder.parent_path();
    }
    return folder / "kernels/metal";
}

// flatten appends a file of kernels/metal to text, with its includes in their places.
inline void flatten(const std::string &file, std::set<std::string> &seen, std::string &text) {
    std::ifstream from(sources() / file);
    demand(from.good(), "a source of the Metal kernels is not there");
    const auto mark = [&](int line) { text += "#line " + std::to_string(line) + " \"kernels/metal/" + file + "\"\n"; };
    mark(1);
    int number = 0;
    for (std::string line; std::getline(from, line);) {
        number++;
        if (line.rfind("#include \"", 0) == 0) {
            const std::string other = line.substr(10, line.size() - 11);
            if (seen.insert(other).second) {
                flatten(other, seen, text);
            }
            mark(number + 1);
        } else {
            text += (line == "#pragma once" ? "" : line) + "\n";
        }
    }
}

// entry compiles what a kernel needs, once.
inline const msl::Entry *entry(const Symbol &symbol) {
    static std::map<std::string, std::shared_ptr<const msl::Program>> programs;
    std::shared_ptr<const msl::Program> &program = programs[symbol.whole ? symbol.family : symbol.name];
    if (!program) {
        std::string text = symbol.macros(), error;
        std::set<std::string> seen;
        flatten(symbol.family + ".metal", seen, text);
        program = msl::Program::compile(text, symbol.bfloat() ? 0x30001 : 0x30000, error);
        if (!program) {
            fail(error);
        }
    }
    return program->find(symbol.name);
}

inline bool aligned(const Buffers &b, std::initializer_list<size_t> which) {
    const auto good = [&](size_t i) { return reinterpret_cast<uintptr_t>(b[i]) % 16 == 0; };
    return std::all_of(which.begin(), which.end(), good);
}

// choose sets the function constants of a call, wide where it may be.
inline void choose(Constants &c, const fkv_append_args &a, const Buffers &b, uint32_t width) {
    const uint32_t pairs = a.flags & FKV_ROPE ? a.rope_dims / 2 : 0;
    const int64_t strides = a.k_stride | a.v_stride | (a.q_heads != 0 ? a.q_stride : 0);
    c[FKV_WITH_ROPE] = b[FKV_APPEND_ROPE] != nullptr;
    c[FKV_WITH_QUERIES] = b[FKV_APPEND_Q] != nullptr;
    c[FKV_WIDE] = (strides | a.k_dim | a.v_dim | pairs) % width == 0 &&
                  aligned(b, {FKV_APPEND_K, FKV_APPEND_V, FKV_APPEND_Q, FKV_APPEND_ROPE}) &&
                  aligned(b, {FKV_APPEND_KCACHE, FKV_APPEND_VCACHE});
}
inline void choose(Constants &c, const fkv_append_quant_args &a, const Buffers &b, uint32_t width) {
    const int64_t strides = a.k_stride | a.v_stride | (a.q_heads != 0 ? a.q_stride : 0);
    c[FKV_WITH_ROPE] = b[FKV_APPEND_QUANT_ROPE] != nullptr;
    c[FKV_WITH_QUERIES] = b[FKV_APPEND_QUANT_Q] != nullptr;
    c[FKV_WIDE] = strides % width == 0 && aligned(b, {FKV_APPEND_QUANT_K, FKV_APPEND_QUANT_V, FKV_APPEND_QUANT_Q});
}
inline void choose(Constants &c, const fkv_gather_quant_args &, const Buffers &b, uint32_t) {
    c[FKV_WITH_TABLE] = b[FKV_GATHER_QUANT_TABLE] != nullptr;
    c[FKV_WIDE] = aligned(b, {FKV_GATHER_QUANT_OUT});
}
inline void choose(Constants &c, const fkv_gather_args &a, const Buffers &b, uint32_t width) {
    c[FKV_WITH_TABLE] = b[FKV_GATHER_TABLE] != nullptr;
    c[FKV_WIDE] = (a.dim | a.row) % width == 0 && aligned(b, {FKV_GATHER_CACHE, FKV_GATHER_OUT});
}
inline void choose(Constants &c, const fkv_merge_args &a, const Buffers &b, uint32_t width) {
    c[FKV_WITH_LSE] = b[FKV_MERGE_OUT_LSE] != nullptr;
    c[FKV_WIDE] = (a.out_stride | a.dim) % width == 0 && aligned(b, {FKV_MERGE_IN, FKV_MERGE_OUT});
}
inline void choose(Constants &c, const fkv_rotate_args &a, const Buffers &b, uint32_t width) {
    c[FKV_WIDE] = (a.k_dim | a.rope_at | a.rope_dims / 2) % width == 0 && aligned(b, {FKV_ROTATE_K, FKV_ROTATE_ROPE});
}
inline void choose(Constants &c, const fkv_fill_args &, const Buffers &b, uint32_t) {
    c[FKV_WIDE] = aligned(b, {FKV_FILL_DST});
}
inline void choose(Constants &c, const fkv_copy_args &, const Buffers &b, uint32_t) {
    c[FKV_WIDE] = aligned(b, {FKV_COPY_DST, FKV_COPY_SRC});
}

// number_of is the number of a storage type among all; 0 where there is none, which nothing asks.
inline uint64_t number_of(uint32_t storage) {
    uint64_t number = 0, i = 0;
#define NUMBERED(name, word)                                                                                         \
    if (storage == word) {                                                                                           \
        number = i;                                                                                                  \
    }                                                                                                                \
    i++;
    FKV_EACH_STORAGE(NUMBERED)
#undef NUMBERED
    return number;
}
inline void choose(Constants &c, const fkv_attend_args &a, const Buffers &b, uint32_t) {
    c[FKV_PAGED] = a.table_stride > 1; // the tests have no paged sequence of one block
    c[FKV_WITH_TABLE] = b[FKV_ATTEND_TABLE] != nullptr;
    c[FKV_WITH_OFFSETS] = b[FKV_ATTEND_QUERY_OFFSETS] != nullptr;
    c[FKV_WITH_ALIBI] = b[FKV_ATTEND_ALIBI] != nullptr;
    c[FKV_WITH_SINKS] = b[FKV_ATTEND_SINKS] != nullptr;
    c[FKV_WITH_SOFTCAP] = a.softcap > 0;
    c[FKV_WITH_LSE] = b[FKV_ATTEND_LSE] != nullptr;
    c[FKV_WITH_FINAL_LSE] = b[FKV_ATTEND_FINAL_LSE] != nullptr;
    c[FKV_WITH_PARTIALS] = b[FKV_ATTEND_PARTIAL] != nullptr;
    c[FKV_WITH_VIEWS] = b[FKV_ATTEND_VIEWS] != nullptr;
    c[FKV_WITH_TREE] = b[FKV_ATTEND_TREE] != nullptr;
    for (size_t bit = 0; bit < STORED_BITS; bit++) {
        c[FKV_CONSTANTS + bit] = number_of(a.k_storage) >> bit & 1;
        c[FKV_CONSTANTS + STORED_BITS + bit] = number_of(a.v_storage) >> bit & 1;
    }
}
template <class Args> void choose(Constants &, const Args &, const Buffers &, uint32_t) {}

// launch runs a kernel on the given grid, with threads and blocks in an order that changes
// from call to call.
template <class Args>
void launch(const std::string &name, simt::Dim grid, std::initializer_list<const void *> buffers, Args args, const void * = nullptr) {
    static uint64_t seed = 0;
    const Symbol symbol(name);
    const msl::Entry *kernel = entry(symbol);
    demand(kernel != nullptr, "no such kernel");
    args.size = sizeof args;
    Buffers all(buffers);
    Constants constants{};
    choose(constants, args, all, symbol.width());
    constants[FKV_WIDE] = constants[FKV_WIDE] && below(4) != 0;
    all.push_back(&args);

    std::vector<void *> params;
    for (const msl::Argument &argument : kernel->arguments) {
        const bool there = argument.guard < 0 || constants[static_cast<size_t>(argument.guard)];
        demand(argument.index < all.size() && (argument.size == 0 || argument.size == sizeof args),
               "parameters are not those of abi.h");
        demand(there || all[argument.index] == nullptr, "a buffer is left out that the call has");
        params.push_back(there ? static_cast<void *>(&all[argument.index]) : nullptr);
    }
    char report[1024] = "";
    simt::Dim block;
    block.x = kernel->most_threads;
    const simt::Launch how{&kernel->kernel, grid, block, kernel->shared, params.data(), constants.data()};
    if (!simt::run(how, simt::Options{seed % 7, false, 2}, report, sizeof report)) {
        fail(name + ": " + report);
    }
    seed++;
}

} // namespace rig
