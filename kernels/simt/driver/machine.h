// The state of the stand-in: devices, contexts and what was made in them. One mutex guards
// all of it, also while a kernel runs, so that every call sees a whole state.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../core/mapping.h"
#include "../simt.h"
#include "api.h"
#include "graph.h"
#include "queue.h"
#include "settings.h"

namespace standin {

struct Device {
    int ordinal = 0;
    size_t used = 0; // bytes of the budget: allocations, and what pools hold on to
    unsigned retained = 0;
    std::shared_ptr<Context> primary; // null: not active
};

struct Context {
    CUcontext handle = nullptr;
    Device *device = nullptr;
    CUresult error = CUDA_SUCCESS; // what every call returns from now on
    CUresult lost = CUDA_SUCCESS;  // what error becomes once somebody waits
    bool destroyed = false;
    StreamRef legacy;
    std::map<std::thread::id, StreamRef> per_thread;

    // fail is what hardware does after a fault: work under way is gone, and the context
    // answers every call with the code.
    void fail(CUresult code);
};

using ContextRef = std::shared_ptr<Context>;

struct Event {
    ContextRef context;
    unsigned flags = 0;
    OpRef recorded;                    // null: never, or in a capture
    std::shared_ptr<Capture> captured; // that it was last recorded in; null: none
};

struct Module {
    ContextRef context;
    std::map<std::string, std::string> kernels;  // that its image has, and what runs as each
    std::map<std::string, CUfunction> functions; // asked for so far
};

struct Function {
    ContextRef context;
    const simt::Kernel *kernel = nullptr;
    int dynamic_shared = 48 << 10; // the most bytes that a launch may ask for
    int carveout = -1;
};

struct Pool {
    CUmemoryPool handle = nullptr; // null: destroyed
    Device *device = nullptr;
    size_t used = 0, used_high = 0, reserved = 0, reserved_high = 0, threshold = 0;
    std::map<CUmemPool_attribute, int> reuse; // policies, which change nothing here

    // trim gives back to the device what is held beyond keep bytes and not in use.
    void trim(size_t keep);
};

using PoolRef = std::shared_ptr<Pool>;

struct Allocation {
    simt::Mapping memory;
    ContextRef context;
    PoolRef pool;         // null: not from one
    bool host = false;    // pinned memory of the host
    size_t footprint = 0; // its share of the device's budget
    bool freed = false;   // stream-ordered: the free is enqueued
    Clock born;           // stream-ordered: its allocation
    Clock used;           // the last operations known to touch it

    explicit Allocation(size_t size) : memory(size) {}
    uintptr_t begin() const { return reinterpret_cast<uintptr_t>(memory.data()); }
    uintptr_t end() const { return begin() + memory.size(); }
};

using AllocationRef = std::shared_ptr<Allocation>;

// new_handle is a number that nothing had as its handle before, so that a handle that
// outlived its object, or is one of another kind, is told from any other.
uintptr_t new_handle();

// Table maps handles to what they stand for.
template <class Handle, class T> class Table {
    std::map<Handle, std::shared_ptr<T>> live;

public:
    Handle add(std::shared_ptr<T> object) {
        Handle handle = reinterpret_cast<Handle>(new_handle());
        live.emplace(handle, std::move(object));
        return handle;
    }
    std::shared_ptr<T> find(Handle handle) const {
        auto at = live.find(handle);
        return at == live.end() ? nullptr : at->second;
    }
    void remove(Handle handle) { live.erase(handle); }
    size_t size() const { return live.size(); }
    template <class F> void each(F f) const {
        for (const auto &[handle, object] : live)
            f(*object);
    }

    // remove_of removes what belongs to a context and returns how many that were.
    size_t remove_of(const Context &context) {
        size_t n = 0;
        for (auto each = live.begin(); each != live.end();)
            if (each->second->context.get() == &context)
                each = live.erase(each), n++;
            else
                ++each;
        return n;
    }
};

// Countdown makes the n-th of a kind of calls fail.
struct Countdown {
    uint64_t left = 0; // 0: none
    bool fires() { return left != 0 && --left == 0; }
};

// Refusal makes the n-th call of one function fail.
struct Refusal {
    std::string function;
    Countdown countdown;
    CUresult code;
};

// Use is what a call wants of a stream: what can become part of a graph, or what cannot.
enum class Use { RECORD, RUN };

struct Machine {
    std::mutex mutex;
    Settings settings;
    bool initialised = false;
    Scheduler scheduler;
    std::vector<Device> devices; // as many as there will ever be: others point into it

    Table<CUcontext, Context> contexts;
    Table<CUstream, Stream> streams;
    Table<CUevent, Event> events;
    Table<CUmodule, Module> modules;
    Table<CUfunction, Function> functions;
    Table<CUmemoryPool, Pool> pools;
    Table<CUgraph, Graph> graphs;
    Table<CUgraphExec, Exec> execs;
    std::map<uintptr_t, AllocationRef> allocations; // by their first byte

    Countdown fail_alloc, fail_launch, fail_call;
    std::vector<Refusal> refusals;
    std::set<std::string, std::less<>> held; // functions whose calls wait
    std::condition_variable released;        // some of them
    uint64_t launches = 0, injected = 0, misuse = 0, abandoned = 0;
    uint64_t spins = 0;      // waits of the host that burn its thread
    uint64_t interrupts = 0; // records that interrupt the host
    std::map<std::string, uint64_t, std::less<>> calls;
    std::map<std::string, uint64_t, std::less<>> runs; // of kernels
    std::string report; // the last thing that went wrong

    Machine();
    Device *device(CUdevice ordinal);
    size_t budget(const Device &device) const { return settings.memory - device.used; } // bytes left

    // note keeps a report and prints it.
    void note(const std::string &text);

    // misused notes a call that hardware would let pass and suffer from later.
    CUresult misused(const std::string &text);

    // refusal is what the call of a function fails with that control wants to fail.
    CUresult refusal(const char *function);

    // stream is the one that a handle of the context, or a special one, stands for; null
    // when there is none.
    StreamRef stream(const ContextRef &context, CUstream handle);

    // allocate makes device memory, from a pool where there is one, and allocate_host
    // pinned memory. Null: the budget is spent, or control wants the call to fail.
    AllocationRef allocate(const ContextRef &context, size_t bytes, const PoolRef &pool = nullptr);
    AllocationRef allocate_host(const ContextRef &context, size_t bytes);

    // allocation is the one that holds the address, null when there is none.
    AllocationRef allocation(uintptr_t address) const;

    // allow refuses a use of a stream, a wait for all streams of a context, or a call that
    // capturing threads must not make, and makes the captures invalid that forbid it.
    CUresult allow(Stream &stream, Use use);
    CUresult allow_all(const Context &context);
    CUresult allow_unsafe();

    // submit enqueues an operation on a stream, or adds it to what the stream captures: op
    // is left alone then.
    CUresult submit(Stream &stream, const Node &node, OpRef *op = nullptr);

    // settle waits for op and does what the driver does whenever the host waits.
    CUresult settle(Context &context, const OpRef &op);
    CUresult settle_all(Context &context);

    // poll is what a query does: at times something gets on, so that polling ends.
    CUresult poll(Context &context, const OpRef &op);

    // release takes an allocation out of the books and unmaps it.
    void release(const AllocationRef &allocation);

    // destroy ends a context with all that was made in it.
    void destroy(const ContextRef &context);

private:
    CUresult settled(Context &context);
    void forget_streams(); // those that are gone
    bool refuse_alloc();
};

// machine is the process's only one. It is never destroyed, because calls may come while
// the process ends.
Machine &machine();

} // namespace standin
