#include "program.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <unistd.h>

#include "compiler.h"

namespace msl {

namespace {

const Core CORE = {[] { return simt::current; }, simt::barrier, simt::meet, simt::fault};

constexpr unsigned VERSIONS[] = {0x30000, 0x30001};

// hash is FNV-1a, twice, from different seeds.
std::string hash(const std::string &text) {
    char name[33];
    uint64_t a = 0xcbf29ce484222325, b = 0x9e3779b97f4a7c15;
    for (unsigned char c : text) {
        a = (a ^ c) * 0x100000001b3;
        b = (b ^ c) * 0x100000001b3;
        b ^= b >> 29;
    }
    snprintf(name, sizeof name, "%016lx%016lx", (unsigned long)a, (unsigned long)b);
    return name;
}

std::string cache() {
    const char *named = getenv("FERRUM_SIMT_CACHE");
    return named && *named ? named : Compiler::default_cache();
}

// Slot is what became of one source. Who wants it waits for who compiles it.
struct Slot {
    std::mutex mutex;
    std::shared_ptr<const Program> program;
};

// Slots live as long as the process: a library that is gone could not be named in a report.
Slot &slot(const std::string &key) {
    static std::mutex &mutex = *new std::mutex;
    static auto &slots = *new std::map<std::string, Slot>;
    std::lock_guard<std::mutex> lock(mutex);
    return slots[key];
}

} // namespace

std::shared_ptr<const Program> Program::compile(const std::string &source, unsigned version, std::string &error) {
    error.clear();
    if (version != VERSIONS[0] && version != VERSIONS[1]) {
        error = "kernels are compiled as Metal 3.0 or 3.1";
        return nullptr;
    }
    try {
        Compiler compiler(version);
        std::string folder = cache(), file = folder + "/" + hash(compiler.identity() + '\n' + source) + ".so";
        Slot &mine = slot(file);
        std::lock_guard<std::mutex> lock(mine.mutex);
        if (mine.program)
            return mine.program;
        if (access(file.c_str(), R_OK) != 0) {
            Folder way(folder);
            compiler.build(compiler.translated(source, way), file, way);
        }
        return mine.program = load(file, error);
    } catch (const std::exception &e) {
        error = e.what();
        return nullptr;
    }
}

std::shared_ptr<const Program> Program::load(const std::string &file, std::string &error) {
    void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    auto open = library ? reinterpret_cast<Open>(dlsym(library, OPEN)) : nullptr;
    if (!open) {
        error = std::string("cannot load compiled kernels: ") + dlerror();
        return nullptr;
    }
    const Table &table = *open(&CORE);
    auto program = std::make_shared<Program>();
    // Every argument is handed over by its pointer; no kernel has more.
    static const std::vector<size_t> SIZES(256, sizeof(void *));
    for (const Function *f = table.functions; f < table.functions + table.count; f++) {
        if (f->count > SIZES.size()) {
            error = std::string("kernel ") + f->name + " has too many arguments";
            return nullptr;
        }
        size_t shared = 0;
        for (const Shared *s = table.shared; s < table.shared + table.shared_count; s++)
            if (std::string(s->function) == f->name && s->bytes > shared)
                shared = s->bytes;
        program->entries_[f->name] = {{f->name, f->threads, unsigned(shared), SIZES.data(), f->count, f->call},
                                      {f->arguments, f->arguments + f->count},
                                      f->threads,
                                      shared,
                                      {table.constants, table.constants + table.constants_count}};
    }
    return program;
}

const Entry *Program::find(const std::string &name) const {
    auto at = entries_.find(name);
    return at == entries_.end() ? nullptr : &at->second;
}

} // namespace msl
