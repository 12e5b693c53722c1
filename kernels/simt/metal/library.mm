// MTLLibrary, MTLFunction and MTLComputePipelineState around a program (msl/program.h).
#include "library.h"

#include "classes.h"

using namespace metal;

namespace {

struct Library {
    Device &device;
    std::shared_ptr<const msl::Program> program;
};

struct Options {
    bool fast_math = true; // Metal's default
    MTLLanguageVersion version = MTLLanguageVersion3_0;
};

struct Values {
    std::map<NSUInteger, bool> set; // by index
};

constexpr size_t MOST_SHARED = 32 << 10;
constexpr unsigned MOST_THREADS = 1024;

id fail(NSError **error, MTLLibraryError code, const std::string &text) {
    if (error != nullptr)
        *error = [failure(MTLLibraryErrorDomain, NSInteger(code), text) autorelease];
    return nil;
}

} // namespace

NSString *const MTLLibraryErrorDomain = @"MTLLibraryErrorDomain";

id metal::library(Call &call, Device &device, const char *source, MTLLanguageVersion version, NSError **error) {
    const Settings &settings = call.m.settings;
    bool refused = call.refused(&call.m.fail_library);
    call.lock.unlock(); // a compiler takes its time
    if (refused)
        return fail(error, MTLLibraryErrorCompileFailure, refusal);
    if (!settings.metal3() || (version > MTLLanguageVersion3_0 && !settings.bfloat()))
        return fail(error, MTLLibraryErrorUnsupported, "this system does not know that version of the language");
    std::string text;
    std::shared_ptr<const msl::Program> program = msl::Program::compile(source, unsigned(version), text);
    if (!program)
        return fail(error, MTLLibraryErrorCompileFailure, text);
    return make([SimtLibrary class], std::shared_ptr<Library>(new Library{device, program}));
}

id metal::packed_library(Call &call, Device &device, const std::string &bytes, NSError **error) {
    if (bytes.compare(0, 4, "MTLB") == 0)
        return library(call, device, bytes.c_str() + 4, MTLLanguageVersion3_0, error);
    call.lock.unlock();
    return fail(error, MTLLibraryErrorUnsupported, "this is no library: it does not begin with MTLB");
}

id metal::pipeline(Call &call, const FunctionRef &function, NSError **error) {
    bool refused = call.refused(&call.m.fail_pipeline);
    call.lock.unlock();
    if (refused)
        return fail(error, MTLLibraryErrorInternal, refusal);
    if (function->entry->shared > MOST_SHARED)
        return fail(error, MTLLibraryErrorInternal, "the kernel needs more than 32768 bytes of threadgroup memory");
    return make([SimtPipeline class], function);
}

@implementation MTLCompileOptions

- (instancetype)init {
    body(self) = std::make_shared<Options>();
    return self;
}

- (BOOL)fastMathEnabled {
    return body_of<Options>(self)->fast_math;
}

- (void)setFastMathEnabled:(BOOL)on {
    body_of<Options>(self)->fast_math = on;
}

- (MTLLanguageVersion)languageVersion {
    return body_of<Options>(self)->version;
}

- (void)setLanguageVersion:(MTLLanguageVersion)version {
    if (version != MTLLanguageVersion3_0 && version != MTLLanguageVersion3_1)
        misuse(self, _cmd, "version %#lx, which the stand-in does not know", version);
    body_of<Options>(self)->version = version;
}

@end

@implementation MTLFunctionConstantValues

- (instancetype)init {
    body(self) = std::make_shared<Values>();
    return self;
}

- (void)setConstantValue:(const void *)value type:(MTLDataType)type atIndex:(NSUInteger)index {
    if (type != MTLDataTypeBool)
        misuse(self, _cmd, "type %lu: the stand-in knows constants of type bool alone", type);
    if (value == nullptr || index > UINT16_MAX)
        misuse(self, _cmd, "value %p at index %lu", value, index);
    unsigned char byte = *static_cast<const unsigned char *>(value);
    if (byte > 1)
        misuse(self, _cmd, "the byte %u is no bool", byte);
    body_of<Values>(self)->set[index] = byte != 0;
}

@end

@implementation SimtLibrary

- (id<MTLFunction>)newFunctionWithName:(NSString *)name
                        constantValues:(MTLFunctionConstantValues *)values
                                 error:(NSError **)error {
    Call call(_cmd);
    auto library = body_of<Library>(self);
    if (name == nil || values == nil)
        misuse(self, _cmd, "a name and values must be there");
    if (call.refused())
        return fail(error, MTLLibraryErrorInternal, refusal);
    const msl::Entry *entry = library->program->find(name.UTF8String);
    if (entry == nullptr)
        return fail(error, MTLLibraryErrorFunctionNotFound, std::string("there is no function ") + name.UTF8String);
    std::vector<uint64_t> constants;
    for (auto [index, value] : body_of<Values>(values)->set) {
        constants.resize(std::max(constants.size(), size_t(index) + 1));
        constants[index] = value;
    }
    for (unsigned index : entry->constants)
        if (body_of<Values>(values)->set.count(index) == 0)
            misuse(self, _cmd, "%s: constant %u, which the library declares, has no value", name.UTF8String, index);
    return make([SimtFunction class],
                std::shared_ptr<Function>(new Function{library->device, library->program, entry, constants}));
}

@end

@implementation SimtFunction
@end

@implementation SimtPipeline

- (NSUInteger)maxTotalThreadsPerThreadgroup {
    Call call(_cmd);
    unsigned most = body_of<Function>(self)->entry->most_threads;
    return most != 0 ? std::min(most, MOST_THREADS) : MOST_THREADS;
}

- (NSUInteger)threadExecutionWidth {
    return 32;
}

- (NSUInteger)staticThreadgroupMemoryLength {
    Call call(_cmd);
    return body_of<Function>(self)->entry->shared;
}

@end
