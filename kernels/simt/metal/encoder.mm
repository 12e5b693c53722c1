// MTLComputeCommandEncoder: what Metal's validation layer looks at is looked at always.
#include "encoder.h"

#include <cstring>

#include "call.h"
#include "classes.h"

using namespace metal;

namespace {

constexpr size_t MOST_BYTES = 4096; // of setBytes
constexpr size_t CONSTANT_ALIGNMENT = 4;
constexpr NSUInteger MOST_THREADS = 1024;

std::shared_ptr<Encoder> open(id self, SEL call) {
    auto encoder = body_of<Encoder>(self);
    if (encoder->ended)
        misuse(self, call, "the encoder has ended");
    return encoder;
}

Binding &binding(Encoder &encoder, id self, SEL call, NSUInteger index) {
    if (index >= encoder.bindings.size())
        misuse(self, call, "index %lu: there are %zu", index, encoder.bindings.size());
    return encoder.bindings[index];
}

// fit checks what is bound for an argument that the kernel takes.
void fit(id self, SEL call, const Function &f, const msl::Argument &argument, const Binding &bound) {
    const char *kernel = f.entry->kernel.name;
    if (bound.empty())
        misuse(self, call, "%s takes buffer(%u), which nothing is bound to", kernel, argument.index);
    if (!argument.constant_space && bound.bytes)
        misuse(self, call, "%s: bytes are bound to buffer(%u), which is no constant", kernel, argument.index);
    if (bound.size() < argument.size)
        misuse(self, call, "%s takes %zu bytes at buffer(%u), and %zu are bound", kernel, argument.size, argument.index,
               bound.size());
    if (argument.constant_space && bound.offset % CONSTANT_ALIGNMENT != 0)
        misuse(self, call, "%s: offset %zu of the constant buffer(%u) is no multiple of %zu", kernel, bound.offset,
               argument.index, CONSTANT_ALIGNMENT);
    if (bound.buffer && bound.buffer->excess)
        misuse(self, call, "%s: buffer(%u) goes beyond the working set of its device", kernel, argument.index);
}

void shape(id self, SEL call, const msl::Entry &entry, MTLSize grid, MTLSize threads) {
    const char *kernel = entry.kernel.name;
    for (NSUInteger n : {grid.width, grid.height, grid.depth, threads.width, threads.height, threads.depth})
        if (n == 0 || n > UINT32_MAX)
            misuse(self, call, "%s: a grid or a threadgroup of size %lu", kernel, n);
    NSUInteger total = threads.width * threads.height * threads.depth;
    if (total > MOST_THREADS || (entry.most_threads != 0 && total != entry.most_threads))
        misuse(self, call, "%s: %lu threads, and it is made for %u", kernel, total, entry.most_threads);
}

} // namespace

void *Binding::data() const {
    return bytes ? static_cast<void *>(bytes->data()) : buffer ? buffer->memory.data() + offset : nullptr;
}

size_t Binding::size() const { return bytes ? length : buffer ? buffer->memory.size() - offset : 0; }

Encoder::~Encoder() {
    if (!ended)
        misuse("-[SimtEncoder dealloc]", "the encoder was released without endEncoding");
}

@implementation SimtEncoder

- (void)setComputePipelineState:(id<MTLComputePipelineState>)pipeline {
    Call call(_cmd);
    auto encoder = open(self, _cmd);
    auto function = state<Function>(pipeline, [SimtPipeline class]);
    if (!function)
        misuse(self, _cmd, "this is no pipeline");
    if (&function->device != &encoder->commands->queue->device)
        misuse(self, _cmd, "the pipeline is another device's");
    encoder->pipeline = function;
}

- (void)setBuffer:(id<MTLBuffer>)object offset:(NSUInteger)offset atIndex:(NSUInteger)index {
    Call call(_cmd);
    auto encoder = open(self, _cmd);
    Binding &bound = binding(*encoder, self, _cmd, index);
    auto buffer = state<Buffer>(object, [SimtBuffer class]);
    if (object == nil) {
        bound = Binding();
        return;
    }
    if (!buffer)
        misuse(self, _cmd, "this is no buffer");
    if (&buffer->device != &encoder->commands->queue->device)
        misuse(self, _cmd, "the buffer at index %lu is another device's", index);
    if (offset >= buffer->memory.size())
        misuse(self, _cmd, "offset %lu at index %lu is outside of a buffer of %zu bytes", offset, index, buffer->memory.size());
    bound = {buffer, offset, nullptr, 0};
}

- (void)setBytes:(const void *)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
    Call call(_cmd);
    auto encoder = open(self, _cmd);
    Binding &bound = binding(*encoder, self, _cmd, index);
    if (bytes == nullptr || length == 0 || length > MOST_BYTES)
        misuse(self, _cmd, "%lu bytes at %p: from 1 to %zu can be set", length, bytes, MOST_BYTES);
    constexpr size_t word = sizeof(std::max_align_t);
    auto copy = std::make_shared<std::vector<std::max_align_t>>((length + word - 1) / word);
    memcpy(copy->data(), bytes, length);
    bound = {nullptr, 0, copy, length};
}

- (void)dispatchThreadgroups:(MTLSize)grid threadsPerThreadgroup:(MTLSize)threads {
    Call call(_cmd);
    auto encoder = open(self, _cmd);
    if (!encoder->pipeline)
        misuse(self, _cmd, "no pipeline is set");
    const Function &f = *encoder->pipeline;
    shape(self, _cmd, *f.entry, grid, threads);
    auto dispatch = std::make_shared<Dispatch>();
    dispatch->pipeline = encoder->pipeline;
    dispatch->grid = {unsigned(grid.width), unsigned(grid.height), unsigned(grid.depth)};
    dispatch->group = {unsigned(threads.width), unsigned(threads.height), unsigned(threads.depth)};
    for (const msl::Argument &argument : f.entry->arguments) {
        if (f.takes(argument))
            fit(self, _cmd, f, argument, binding(*encoder, self, _cmd, argument.index));
        dispatch->arguments.push_back(f.takes(argument) ? encoder->bindings[argument.index] : Binding());
    }
    call.m.dispatches++;
    encoder->commands->ops.push_back({Op::DISPATCH, nullptr, 0, dispatch, encoder->pass});
}

- (void)endEncoding {
    Call call(_cmd);
    auto encoder = open(self, _cmd);
    encoder->ended = true;
    encoder->bindings = {}; // the command buffer holds what it uses
    encoder->pipeline = nullptr;
    encoder->commands->encoding = false;
}

@end
