// Libraries of kernels: how a kernel meets its launch, what is refused and where, what is
// reported with the lines of the source, and the cache.
#include <algorithm>
#include <dirent.h>
#include <unistd.h>

#include "../../msl/compiler.h"
#include "../../msl/translate.h"
#include "msl_rig.h"

namespace {

#define KERNEL "[[max_total_threads_per_threadgroup(64)]] kernel void "

const std::string LAUNCH = R"(
    #include <metal_stdlib>
    using namespace metal;
    enum { IN, OUT, FACTORS, ARGS };
    struct Args { uint size; float scale; };
    constant bool scaled [[function_constant(3)]];
    constant bool factored [[function_constant(5)]];
    inline float factor(const device float *factors, uint i) { return factored ? factors[i] : 1; }
    [[max_total_threads_per_threadgroup(32 * 2)]] kernel void launch(const device float *in [[buffer(IN)]], device float *out [[buffer(OUT)]],
            const device float *factors [[buffer(FACTORS), function_constant(factored)]], constant Args &args [[buffer(ARGS)]],
            uint3 group [[threadgroup_position_in_grid]], uint3 groups [[threadgroups_per_grid]], uint i [[thread_index_in_threadgroup]]) {
        uint at = (group.x + groups.x * (group.y + groups.y * group.z)) * 64 + i;
        if (at < args.size)
            out[at] = in[at] * (scaled ? args.scale : 1) * factor(factors, at);
    }
    [[max_total_threads_per_threadgroup(1)]] kernel void nothing() {}
)";

struct Args {
    uint32_t size;
    float scale;
};

// What the library tells of a kernel, and what the kernel finds.
void test_launch() {
    auto program = compile(LAUNCH);
    demand(program->find("launch2") == nullptr && program->find("nothing")->arguments.empty());
    const msl::Entry &e = *program->find("launch");
    demand(e.most_threads == 64 && e.shared == 0 && e.kernel.shared == 0 && e.kernel.threads == 64 && e.kernel.count == 4);
    demand((e.constants == std::vector<unsigned>{3, 5}));
    const msl::Argument want[] = {{0, false, false, 0, -1}, {1, false, true, 0, -1}, {2, false, false, 0, 5}, {3, true, false, sizeof(Args), -1}};
    for (int i = 0; i < 4; i++) {
        const msl::Argument &a = e.arguments[i];
        demand(a.index == want[i].index && a.constant_space == want[i].constant_space && a.writable == want[i].writable);
        demand(a.size == want[i].size && a.guard == want[i].guard);
    }
    std::vector<float> in(2 * 3 * 64), factors(in.size());
    for (size_t i = 0; i < in.size(); i++)
        in[i] = float(i + 1), factors[i] = float(i % 5);
    Args args{uint32_t(in.size() - 1), 0.5f};
    for (bool scaled : {false, true})
        for (bool factored : {false, true}) {
            std::vector<float> out(in.size(), -1);
            Run run{&e, 64, {2, 3}, {1, 1, 1, scaled, 1, factored}};
            float *none = nullptr;
            demand(run(in.data(), out.data(), factored ? factors.data() : none, &args) == "");
            for (size_t i = 0; i < in.size(); i++)
                demand(out[i] == (i < args.size ? in[i] * (scaled ? 0.5f : 1) * (factored ? factors[i] : 1) : -1));
        }
}

// An argument that is left out is null, whatever the launch has in its place.
void test_guard() {
    auto program = compile(R"(
        constant bool there [[function_constant(0)]];
        [[max_total_threads_per_threadgroup(32)]] kernel void k(device uint *out [[buffer(0)]], device uint *p [[buffer(1), function_constant(there)]]) { *out = p ? 1 : 0; }
    )");
    uint32_t out[1], p;
    for (uint64_t there : {0, 1}) {
        demand(Run{program->find("k"), 1, {}, {there}}(out, &p) == "");
        demand(out[0] == there);
    }
    void *to = out, *params[] = {&to, nullptr};
    uint64_t constants[] = {0};
    demand(simt::run({&program->find("k")->kernel, {}, {1}, 0, params, constants}, {}, nullptr, 0) && out[0] == 0);
}

// Threadgroup memory begins as NaN, and its variables lie side by side, aligned.
void test_threadgroup() {
    auto program = compile(R"(
        template <int N> struct Sizes { enum { COUNT = N * 2 }; };
        [[max_total_threads_per_threadgroup(32)]] kernel void k(device float *out [[buffer(0)]], uint lane [[thread_index_in_simdgroup]]) {
            constexpr int LOCAL = 3;
            threadgroup uchar bytes[LOCAL];
            threadgroup alignas(16) half first[Sizes<16>::COUNT];
            threadgroup float4 second[2][16];
            threadgroup float *flat = (threadgroup float *)second;
            if (lane == 0) {
                out[0] = bytes[2] == 255 && isnan(first[0]) && isnan(flat[127]) ? 1 : 0;
                out[1] = float((threadgroup uchar *)first - bytes) * 1000 + float((threadgroup uchar *)second - bytes);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            first[lane] = half(lane);
            second[lane / 16][lane % 16] = float4(lane);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            out[2 + lane] = first[31 - lane] + flat[4 * lane + 3];
        }
        [[max_total_threads_per_threadgroup(32)]] kernel void most(device float *out [[buffer(0)]]) {
            threadgroup float4 all[2048];
            all[2047] = 5;
            *out = all[2047].x;
        }
    )");
    float out[34];
    demand(program->find("k")->shared == 80 + 512 && program->find("most")->shared == 32768);
    demand(Run{program->find("k")}(out) == "");
    demand(out[0] == 1 && out[1] == 16080);
    for (int lane = 0; lane < 32; lane++)
        demand(out[2 + lane] == 31);
    demand(Run{program->find("most"), 1}(out) == "" && out[0] == 5);
}

struct Bad {
    const char *source, *want;
};

// Every source is wrong in line 2 of t.metal.
const Bad BAD[] = {
    {KERNEL "k(device float *out [[buffer(0)]]) {\n out[0] = nothing; }", "use of undeclared identifier 'nothing'"},
    {KERNEL "k(device float *out [[buffer(0)]]) {\n threadgroup float4 a[2049]; a[0] = 0; }", "32768"},
    {KERNEL "k(device float *out [[buffer(0)]]) { threadgroup float4 a[2000]; a[0] = 0;\n threadgroup float b[256]; b[0] = 0; }", "32768"},
    {KERNEL "k() { {\n threadgroup float a[2]; a[0] = 0; } }", "outermost block"},
    {"inline void f() {\n threadgroup float a[2]; a[0] = 0; }", "outermost block"},
    {KERNEL "k() {\n threadgroup float a[2], b[2]; }", "declaration of its own"},
    {KERNEL "k() {\n threadgroup float a[2] = {}; }", "without a value"},
    {"\ntemplate <class T> " KERNEL "k() {}", "not templates"},
    {"\ntemplate <class T> kernel void k() {}", "not templates"},
    {"\nkernel void k() {}", "max_total_threads_per_threadgroup"},
    {"\n[[max_total_threads_per_threadgroup(32), other]] kernel void k() {}", "not known in front of a kernel"},
    {"namespace n {\n" KERNEL "k() {} }", "in no namespace"},
    {KERNEL "k() {}\n" KERNEL "k() {}", "two kernels of the name k"},
    {"\n[[max_total_threads_per_threadgroup(32)]] kernel int k() {}", "kernel void name"},
    {KERNEL "k(\ndevice float *out) {}", "ends with one [[...]]"},
    {KERNEL "k(\ndevice float *out [[buffer(0)]], threadgroup float *t [[threadgroup(0)]]) {}", "not known for a parameter: threadgroup"},
    {KERNEL "k(\nuint i [[thread_position_in_grid]]) {}", "not known for a parameter: thread_position_in_grid"},
    {KERNEL "k(\nthreadgroup float *out [[buffer(0)]]) {}", "a device or a constant pointer"},
    {"\n" KERNEL "k(constant float out [[buffer(0)]]) {}", "a device or a constant pointer"},
    {"\n" KERNEL "k(uint3 i [[thread_index_in_simdgroup]]) {}", "another type"},
    {"\nconstant int n [[function_constant(0)]];", "constant bool name"},
    {"\nstruct [[packed]] S { int a; };", "attribute that is not known"},
    {"inline float f(\nfloat *p) { return *p; }", "without an address space"},
    {"inline float f(device float *p) {\n const float *q = p; return *q; }", "without an address space"},
    {"inline float f(device float *p) {\n return *(float *)p; }", "without an address space"},
    {"inline float f(device uint *p) {\n return *reinterpret_cast<float *>(p); }", "without an address space"},
    {"struct S {\n float *p; };", "without an address space"},
    {"inline float f(float x) {\n return x * double(2); }", "double"},
    {"inline int f() {\n static int n; return n++; }", "static variables"},
    {"inline int f(int a) {\n return [=] { return a; }(); }", "lambdas"},
    {"inline int f(int a) {\n goto end; end: return a; }", "goto"},
    {"struct S {\n virtual int f(); };", "virtual"},
    {"inline int f() {\n return *new int(1); }", "new"},
    {"inline void f() {\n throw 1; }", "throw"},
    {"inline void f() {\n __builtin_trap(); }", "__builtin_trap"},
    {"inline void f() {\n std::nullptr_t p; }", "std"},
    {"inline float f() {\n float half = 1; return half; }", "half is a type"},
    {"inline float f(\nfloat uint3) { return uint3; }", "uint3 is a type"},
    {"struct S {\n float bfloat[2]; };", "bfloat is a type"},
    {"inline float f(device float *p) {\n device float *float4 = p; return *float4; }", "float4 is a type"},
    {"inline long f() {\n long long n = 1; return n; }", "long long"},
    {"inline void f() {\n simt::barrier({}); }", "simt"},
    {"inline int f(int n) {\n int a[n]; return a[0]; }", "variable length"},
    {"inline int f() {\n if constexpr (true) return 1; return 0; }", "C++17"},
    {"constant bool a [[function_constant(0)]];\nconstant bool b = !a;", "global constructor"},
    {"inline float f(float x) {\n return sin(x); }", "sin"},
    {"inline float f(float x) {\n return simd_prefix_inclusive_sum(x); }", "simd_prefix_inclusive_sum"},
    {"inline float f(float x) {\n return max(x, 1); }", "no matching function"},
    {"inline float4 f(float2 x) {\n return float4(x, 1); }", "too few or too many"},
    {"inline float4 f(half4 x) {\n return x; }", "cannot"},
    {"inline long f(long x) {\n return simd_shuffle(x, 1); }\n" KERNEL "k() { f(1); }", "at most 32 bits"},
    {"inline void f() {\n threadgroup_barrier(mem_flags::mem_none); }", "mem_none"},
    {"inline void f() {\n /* no end", "unterminated"},
    {"inline void f() {\n (1]; }", "closes nothing"},
    {"inline void f()\n {", "never closed"},
    {"\n#include \"other.h\"", "other.h"},
    {"\n#error no", "no"},
};

void test_refusals() {
    bool good = true;
    for (const Bad &bad : BAD) {
        std::string error, source = "#include <metal_stdlib>\nusing namespace metal;\n#line 1 \"t.metal\"\n" + std::string(bad.source) + "\n";
        bool refused = !msl::Program::compile(source, 0x30001, error) && says(error, bad.want) && says(error, "t.metal:2:");
        if (!refused)
            fprintf(stderr, "%s\nwant: %s\nsaid: %s\n", bad.source, bad.want, error.c_str());
        good = good && refused;
    }
    demand(good);
    std::string error;
    demand(!msl::Program::compile("bfloat4 x;", 0x30000, error) && says(error, "program_source:1:") && says(error, "bfloat4"));
    demand(!msl::Program::compile("", 0x20000, error) && says(error, "3.0 or 3.1"));
    demand(msl::Program::compile("#if __METAL_VERSION__ != 300\n#error\n#endif", 0x30000, error) && error.empty());
    demand(msl::Program::compile("#ifdef linux\n#error\n#endif", 0x30000, error) != nullptr);
}

// With address spaces in the types, what mixes them is refused; so are recursion and, as
// errors, warnings. Otherwise all of it compiles.
void test_check() {
    const Bad bad[] = {
        {"inline float f(device float *p) {\n threadgroup float *q = p; return *q; }", "cannot initialize"},
        {"inline void f(constant float *p, float x) {\n *p = x; }", "read-only"},
        {"inline float g(threadgroup const float *p) { return *p; }\ninline float f(device const float *p) {\nreturn g(p); }", "no matching function"},
        {"inline void f(device half *p) { simdgroup_half8x8 m;\nthread half *q = p; simdgroup_load(m, q); }", "cannot initialize"},
        {"\ninline int f(int n) { int unused = 3; return n; }", "unused"},
        {"inline int f(int n); inline int g(int n) { return f(n - 1); }\ninline int f(int n) { return n > 0 ? g(n) : 0; }\n"
         KERNEL "k(device int *out [[buffer(0)]]) { *out = f(*out); }", "has no recursion: "},
        {"template <int N> inline int f(int n) { return n > N ? f<N>(n - 1) : n; }\n"
         KERNEL "k(device int *out [[buffer(0)]]) { *out = f<3>(*out); }", "f<3>(int) calls itself"},
    };
    msl::Compiler compiler(0x30001);
    msl::Folder folder("/tmp");
    for (const Bad &b : bad) {
        std::string said, text = compiler.translated(std::string("#include <metal_stdlib>\nusing namespace metal;\n#line 1 \"t.metal\"\n") + b.source + "\n", folder);
        try {
            compiler.check(text, folder);
        } catch (const msl::Failure &e) {
            said = e.what();
        }
        if (!says(said, b.want))
            fprintf(stderr, "%s\nwant: %s\nsaid: %s\n", b.source, b.want, said.c_str());
        demand(says(said, b.want));
    }
    compiler.check(compiler.translated(LAUNCH, folder), folder);
}

// Comments and strings are no code, and lines stay where they are.
void test_translation() {
    std::string in = "# 7 \"a.metal\"\n// kernel [[x]] \" '\n/* double\n { */ constant int A = '\\'' ; // double\n#pragma unroll\nint b[2][2];\n";
    demand(msl::translate(in).compare(0, in.size(), in) == 0);
    std::string out = msl::translate("constant bool a [[function_constant(\n2)]]; int after;");
    demand(says(out, "::msl::Constant<(2)> a"));
    demand(std::count(out.begin(), out.begin() + long(out.find("after")), '\n') == 1);
}

// Reports name the lines of the source.
void test_reports() {
    auto program = compile(KERNEL "branch(uint i [[thread_index_in_threadgroup]]) {\n"
                                  "    if (i < 40)\n"
                                  "        threadgroup_barrier(mem_flags::mem_threadgroup);\n"
                                  "    else\n"
                                  "        threadgroup_barrier(mem_flags::mem_threadgroup);\n"
                                  "}\n" KERNEL "early(uint i [[thread_index_in_threadgroup]]) {\n"
                                  "    if (i == 7) return;\n"
                                  "    threadgroup_barrier(mem_flags::mem_device);\n"
                                  "}\n" KERNEL "lanes(device float *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n"
                                  "    if (i != 3) out[i] = simd_sum(1.0);\n"
                                  "}\n" KERNEL "away(device float *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n"
                                  "    out[i] = simd_shuffle(1.0, 32);\n"
                                  "}\n" KERNEL "apart(device float *out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n"
                                  "    simdgroup_float8x8 m;\n"
                                  "    simdgroup_load(m, out + i / 31, 8);\n"
                                  "}\n");
    std::vector<float> out(128);
    for (uint64_t seed = 0; seed < 5; seed++) {
        auto report = [&](const char *name) { return Run{program->find(name), 64, {}, {}, seed}; };
        std::string said = report("branch")();
        demand(says(said, "kernel branch, block (0,0,0)") && says(said, "wait at the barrier at t.metal:") && says(said, ", at t.metal:"));
        said = report("early")();
        demand(says(said, "63 wait at the barrier at t.metal:9") && says(said, "1 have returned"));
        demand(says(report("lanes")(out.data()), "31 wait for lanes of their warp at t.metal:12"));
        demand(says(report("away")(out.data()), "a lane that is not there, at t.metal:15"));
        demand(says(report("apart")(out.data()), "another matrix in memory than the other threads of its simdgroup, at t.metal:19"));
    }
}

std::vector<std::string> files(const std::string &folder) {
    std::vector<std::string> names;
    DIR *dir = opendir(folder.c_str());
    demand(dir != nullptr);
    while (dirent *entry = readdir(dir))
        if (entry->d_name[0] != '.')
            names.push_back(entry->d_name);
    closedir(dir);
    return names;
}

// Two libraries with a kernel of one name, compiled once each, leave nothing but themselves.
void test_cache() {
    char folder[] = "/tmp/msl-test-XXXXXX";
    demand(mkdtemp(folder) != nullptr);
    std::string cache = std::string(folder) + "/deeper/cache", error;
    setenv("FERRUM_SIMT_CACHE", cache.c_str(), 1);
    auto source = [](const char *value) {
        return "[[max_total_threads_per_threadgroup(1)]] kernel void same(device float *out [[buffer(0)]]) { *out = " + std::string(value) + "; }";
    };
    auto one = msl::Program::compile(source("1"), 0x30000, error), two = msl::Program::compile(source("2"), 0x30000, error);
    demand(one && two && one != two && files(cache).size() == 2);
    demand(msl::Program::compile(source("1"), 0x30000, error) == one);
    demand(!msl::Program::compile(source("three"), 0x30000, error) && files(cache).size() == 2);
    float out[1];
    demand(Run{one->find("same"), 1}(out) == "" && out[0] == 1);
    demand(Run{two->find("same"), 1}(out) == "" && out[0] == 2);

    setenv("FERRUM_SIMT_CXX", "/nonexistent/clang++", 1);
    demand(!msl::Program::compile(source("4"), 0x30000, error));
    demand(says(error, "/nonexistent/clang++") && says(error, "FERRUM_SIMT_CXX") && files(cache).size() == 2);
    unsetenv("FERRUM_SIMT_CXX");
    setenv("FERRUM_SIMT_CACHE", "/proc/nowhere", 1);
    demand(!msl::Program::compile(source("5"), 0x30000, error) && says(error, "/proc/nowhere"));
    unsetenv("FERRUM_SIMT_CACHE");
    demand(system(("rm -r " + std::string(folder)).c_str()) == 0);
}

} // namespace

int main() {
    test_launch();
    test_guard();
    test_threadgroup();
    test_refusals();
    test_check();
    test_translation();
    test_reports();
    test_cache();
    return 0;
}
