// Operations that can be kept: captured from a stream, made into a graph, and enqueued
// again with the arguments that they had.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "queue.h"

namespace standin {

struct Allocation;
struct Machine;

// Work is what an operation does when its stream comes to it, and the memory that it is
// known to use.
struct Work {
    std::function<CUresult()> run;
    std::vector<std::shared_ptr<Allocation>> uses;
    bool launch = false; // of a kernel
};

// Node is an operation with a copy of its arguments. It looks at what they stand for each
// time that it is enqueued, and refuses what is gone.
using Node = std::function<CUresult(Machine &, const Stream &, Work *)>;

// Capture is what a stream collects while it runs nothing.
struct Capture {
    CUstreamCaptureMode mode;
    std::thread::id thread; // that has begun it
    bool invalid = false;   // a call has broken the rules: only the end is left
    std::vector<Node> nodes;
};

struct Graph {
    std::shared_ptr<Context> context; // of the stream that it was captured on
    std::vector<Node> nodes;
};

// Exec is a graph that can be launched.
struct Exec {
    std::shared_ptr<Context> context;
    std::vector<Node> nodes;
    OpRef last; // the last launch, which the next comes after
    Clock used; // all launches
};

} // namespace standin
