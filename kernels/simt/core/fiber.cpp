#include "fiber.h"

#include <cstdint>
#include <new>
#include <sys/mman.h>

namespace {

// Enough for the deepest kernel with the frames of a sanitizer; only touched pages cost.
constexpr size_t STACK = 256 * 1024;
constexpr size_t GUARD = 4096;

} // namespace

// simt_switch jumps where it could return: the processor predicts returns by the calls it
// saw, and here they never match.

#if defined(__x86_64__)
asm(R"(
.text
.hidden simt_switch
.globl simt_switch
.type simt_switch, @function
simt_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    movq %rdx, %rdi
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmp *%rcx
.size simt_switch, .-simt_switch
)");
constexpr size_t FRAME = 8;    // words: six registers, where to go on, and the end of the backtrace
constexpr size_t GO_ON = 6;    // the word that says where
#elif defined(__aarch64__)
asm(R"(
.text
.hidden simt_switch
.globl simt_switch
.type simt_switch, %function
simt_switch:
    stp x29, x30, [sp, #-160]!
    stp x19, x20, [sp, #16]
    stp x21, x22, [sp, #32]
    stp x23, x24, [sp, #48]
    stp x25, x26, [sp, #64]
    stp x27, x28, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    mov x0, x2
    ldp x19, x20, [sp, #16]
    ldp x21, x22, [sp, #32]
    ldp x23, x24, [sp, #48]
    ldp x25, x26, [sp, #64]
    ldp x27, x28, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x29, x30, [sp], #160
    br x30
.size simt_switch, .-simt_switch
)");
constexpr size_t FRAME = 20; // words: x29, x30, ten and eight registers
constexpr size_t GO_ON = 1;
#else
#error "simt_switch is written for x86-64 and aarch64"
#endif

namespace simt {

Fiber::Fiber() { adopt(); }

void Fiber::adopt() {
#ifdef SIMT_TSAN
    race_ = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(Work work, size_t skew) : skew_(skew & ~size_t{63}), work_(work) {
    void *p = mmap(nullptr, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        throw std::bad_alloc();
    if (mprotect(p, GUARD, PROT_NONE) != 0) {
        munmap(p, GUARD + STACK);
        throw std::bad_alloc();
    }
    base_ = static_cast<unsigned char *>(p);
    bottom_ = base_ + GUARD;
    size_ = STACK;
    reset();
}

Fiber::~Fiber() {
    if (!base_)
        return;
#ifdef SIMT_TSAN
    __tsan_destroy_fiber(race_);
#endif
    munmap(base_, GUARD + STACK);
}

void Fiber::reset() {
    allow(bottom_, size_); // frames that were left without a return
    fake_ = nullptr;
#ifdef SIMT_TSAN
    if (race_) {
        // A switch with synchronisation: what the work did was before what follows here.
        void *here = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(race_, __tsan_switch_to_fiber_no_sync);
        __tsan_switch_to_fiber(here, 0);
        __tsan_destroy_fiber(race_);
    }
    race_ = __tsan_create_fiber(0);
#endif
    // As simt_switch would have left the stack.
    auto *frame = reinterpret_cast<uintptr_t *>(base_ + GUARD + STACK - skew_) - FRAME;
    for (size_t i = 0; i < FRAME; i++)
        frame[i] = 0;
    frame[GO_ON] = reinterpret_cast<uintptr_t>(&Fiber::life);
    sp_ = frame;
}

#ifdef __SANITIZE_ADDRESS__
namespace {
thread_local Fiber *gone; // the fiber that was left last
}

// Before a switch, on the old stack.
void Fiber::leave(Fiber &to) {
    gone = this;
    __sanitizer_start_switch_fiber(&fake_, to.bottom_, to.size_);
}

// After a switch, on the new stack, maybe on another OS thread than the last time: the
// compiler, which may keep the address of gone, must not make one function of the two. The
// bounds of an OS thread's stack become known here, when it was left.
__attribute__((noinline)) void Fiber::arrive() {
    __sanitizer_finish_switch_fiber(fake_, &gone->bottom_, &gone->size_);
}
#endif

// life is the first function on a new stack, and the last: what follows work_ is reached
// when the fiber is switched to for another round.
void Fiber::life(Fiber *self) {
    self->arrive();
    for (;;)
        self->work_(self->argument_);
}

} // namespace simt
