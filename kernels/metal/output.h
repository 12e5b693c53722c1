// Where results go, and how the parts that the simdgroups of a threadgroup have become one.
#pragma once

#include "softmax.h"

namespace fkv {

// Line is the memory of a row: of T in the output, or of f32 in the workspace.
template <class T> struct Line {
    device T *out;
    device float *partial;

    // put writes the dims from dim on, of which x has two or four.
    template <int N> void put(int dim, vec<float, N> x) const {
        if (out) {
            *reinterpret_cast<device vec<T, N> *>(out + dim) = vec<T, N>(x);
        } else {
            *reinterpret_cast<device vec<float, N> *>(partial + dim) = x;
        }
    }
};

// Output writes rows of an item of activation type T: to the call's outputs, or to
// the workspace where other parts have the rest of the keys.
template <class T> struct Output {
    Call call;
    Results to;
    Task task;

    // sink is the logit of row r that this part counts, -inf for none.
    float sink(uint32_t r) const {
        return with_sinks && task.item.part == 0 ? call.sinks[task.row(r).head] : NEG_INF;
    }

    // lse writes the log-sum-exp of row r: for one lane.
    void lse(uint32_t r, float value) const {
        if (task.item.parts > 1) {
            to.partial_lse[task.partial(task.item.part, r)] = value;
        } else {
            final_lse(r, value);
        }
    }

    void final_lse(uint32_t r, float value) const {
        const Row row = task.row(r);
        const int64_t i = int64_t(row.token()) * call.args->q_heads + row.head;
        if (with_lse) to.lse[i] = value;
        if (with_final_lse) to.final_lse[i] = value;
    }

    // line is where row r goes.
    Line<T> line(uint32_t r) const {
        if (task.item.parts == 1) return final_line(r);
        return {nullptr, to.partial + task.partial(task.item.part, r) * call.args->v_dim};
    }

    Line<T> final_line(uint32_t r) const {
        const Row row = task.row(r);
        const int64_t at = row.token() * call.args->out_stride + int64_t(row.head) * call.args->v_dim;
        return {static_cast<device T *>(to.out) + at, nullptr};
    }
};

// join adds up the softmaxes of the same rows over disjoint keys that PARTS simdgroups have
// in registers; part 0 gets the sum. SETS of them, for other rows, are joined side by side.
// In every round half of those that are left hand theirs over, each lane what it has: one
// number of all lanes is 128 bytes in a row, so no bank is hit twice. All simdgroups call
// it, and memory may have been in use until then.
template <int PARTS, int SETS, class State>
inline void join(thread State &state, Scoring scoring, threadgroup void *memory, int part, int set, int lane) {
    for (int left = PARTS / 2; left > 0; left /= 2) {
        const int at = (part % left * SETS + set) * State::FLOATS * int(LANES) + lane;
        threadgroup float *given = static_cast<threadgroup float *>(memory) + at;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (part >= left && part < 2 * left) state.give(given);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (part < left) state.take(given, scoring);
    }
}

// joined is the bytes that join needs.
template <int PARTS, int SETS, class State> constexpr int joined() {
    return PARTS / 2 * SETS * State::FLOATS * int(LANES) * int(sizeof(float));
}

} // namespace fkv
