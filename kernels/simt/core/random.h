// Reproducible disorder.
#pragma once

#include <cstdint>

namespace simt {

// Random is splitmix64. A Random of seed 0 is not random: pick answers 0.
class Random {
public:
    explicit Random(uint64_t seed = 0) : state_(seed), on_(seed != 0) {}

    bool on() const { return on_; }

    // next is 64 random bits, with or without a seed.
    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }

    // pick is a number below n, which is not 0.
    uint32_t pick(uint32_t n) { return on_ ? (next() >> 32) * n >> 32 : 0; }

    // fork is another stream, the same for the same seed and number; not random if this is not.
    Random fork(uint64_t number) const {
        Random other = *this;
        other.state_ ^= Random(number + 1).next();
        other.state_ = other.next();
        return other;
    }

private:
    uint64_t state_;
    bool on_;
};

} // namespace simt
