// Running a launch: its blocks, in some order, by some OS threads.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "block.h"
#include "crew.h"

namespace simt {

namespace {

// Workplace is what outlives a launch.
struct Workplace {
    Crew crew;
    std::mutex mutex;
    std::vector<std::unique_ptr<Block>> idle; // with their stacks, which are dear to make
    std::mutex alone; // held by a launch under a sanitizer

    std::unique_ptr<Block> take() {
        std::lock_guard<std::mutex> lock(mutex);
        if (idle.empty())
            return std::make_unique<Block>();
        std::unique_ptr<Block> block = std::move(idle.back());
        idle.pop_back();
        return block;
    }

    void give(std::unique_ptr<Block> block) {
        std::lock_guard<std::mutex> lock(mutex);
        idle.push_back(std::move(block));
    }
};

// Never destroyed: the crew may still wait when the program ends.
Workplace &workplace() {
    static Workplace &place = *new Workplace;
    return place;
}

// Permutation orders the numbers below n, by a step that has no divisor in common with n;
// without a seed it leaves them in order.
class Permutation {
public:
    Permutation(uint64_t n, Random random) : n_(n) {
        if (!random.on())
            return;
        start_ = random.next() % n;
        do
            step_ = random.next() % n;
        while (std::gcd(step_, n) != 1);
    }

    uint64_t operator[](uint64_t i) const {
        using Wide = unsigned __int128;
        return uint64_t((Wide{i} * step_ + start_) % n_);
    }

private:
    uint64_t n_, start_ = 0, step_ = 1;
};

// Grid hands the blocks of a launch out, to whoever asks; it is safe for concurrent use.
class Grid {
public:
    Grid(const Launch &launch, const Options &options, Report &report)
        : launch_(launch), late_copies_(options.late_copies), random_(options.seed), report_(report),
          blocks_(uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z), order_(blocks_, random_) {}

    uint64_t blocks() const { return blocks_; }

    // run_next runs one more block; it returns false when there is none or one has failed.
    bool run_next(Block &block) {
        uint64_t i = next_.fetch_add(1, std::memory_order_relaxed);
        if (i >= blocks_ || report_.failed())
            return false;
        i = order_[i];
        Dim grid = launch_.grid;
        Dim index = {unsigned(i % grid.x), unsigned(i / grid.x % grid.y), unsigned(i / grid.x / grid.y)};
        block.run(launch_, index, late_copies_, random_.fork(i), report_);
        return true;
    }

private:
    const Launch &launch_;
    bool late_copies_;
    Random random_;
    Report &report_;
    uint64_t blocks_;
    Permutation order_;
    std::atomic<uint64_t> next_{0};
};

// work runs blocks until none is left. Memory that runs out here fails the launch, as it
// would in a driver.
void work(Grid &grid, Report &report) {
    try {
        std::unique_ptr<Block> block = workplace().take();
        while (grid.run_next(*block)) {
        }
        workplace().give(std::move(block));
    } catch (const std::bad_alloc &) {
        report.add("the emulator has no memory for the threads of a block");
    }
}

// Under AddressSanitizer one OS thread runs everything, because __shared__ arrays are plain
// static ones, which it guards.
void run_alone(Grid &grid, Report &report) {
    std::lock_guard<std::mutex> lock(workplace().alone);
    work(grid, report);
}

// Under the race check each block has an OS thread of its own, and with it __shared__ arrays
// of its own: use of the same ones would look like a race between blocks.
void run_apart(Grid &grid, Report &report) {
    std::lock_guard<std::mutex> lock(workplace().alone);
    std::unique_ptr<Block> block = workplace().take();
    bool more = true;
    while (more)
        std::thread([&] {
            try {
                more = grid.run_next(*block);
            } catch (const std::bad_alloc &) {
                report.add("the emulator has no memory for the threads of a block");
                more = false;
            }
        }).join();
    block->join();
    workplace().give(std::move(block));
}

} // namespace

bool run(const Launch &launch, const Options &options, char *report, size_t size) {
    Report found;
    for (Dim d : {launch.grid, launch.block})
        if (d.x == 0 || d.y == 0 || d.z == 0) {
            found.add("a launch without blocks or threads");
            found.copy(report, size);
            return false;
        }
    Grid grid(launch, options, found);
    if (TSAN) {
        run_apart(grid, found);
    } else if (ASAN) {
        run_alone(grid, found);
    } else {
        uint64_t workers = options.workers ? options.workers : std::max(1u, std::thread::hardware_concurrency());
        workplace().crew.share(unsigned(std::min(workers, grid.blocks()) - 1), [&] { work(grid, found); });
    }
    found.copy(report, size);
    return !found.failed();
}

} // namespace simt
