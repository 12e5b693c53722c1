// Where results go, and how the parts that the warps of a block have become one.
#pragma once

#include "run.cuh"
#include "softmax.cuh"

namespace fkv {

// Line is the memory of a row: of T in the output, or of f32 in the workspace.
template <class T> struct Line {
    T *out;
    float *partial;

    // put writes dims [dim, dim+N).
    template <int N> __device__ void put(int dim, const float (&x)[N]) const {
        if (out) {
            store(out + dim, x);
        } else {
            store(partial + dim, x);
        }
    }
};

// Output writes rows of an item of activation type T: to the call's outputs, or to
// the workspace where other parts have the rest of the keys.
template <class T> struct Output {
    const Operands &at;
    const fkv_attend_args &args;
    const Task &task;

    // sink is the logit of row r that this part counts, null for none.
    __device__ const float *sink(uint32_t r) const {
        return at.sinks && task.item.part == 0 ? at.sinks + task.row(r).head : nullptr;
    }

    // lse writes the log-sum-exp of row r: for one lane.
    __device__ void lse(uint32_t r, float value) const {
        if (task.item.parts > 1) {
            at.partial_lse[task.partial(task.item.part, r)] = value;
        } else {
            final_lse(r, value);
        }
    }

    __device__ void final_lse(uint32_t r, float value) const {
        Row row = task.row(r);
        int64_t i = int64_t(row.token()) * args.q_heads + row.head;
        if (at.lse) at.lse[i] = value;
        if (at.final_lse) at.final_lse[i] = value;
    }

    // line is where row r goes.
    __device__ Line<T> line(uint32_t r) const {
        if (task.item.parts == 1) return final_line(r);
        return {nullptr, at.partial + task.partial(task.item.part, r) * args.v_dim};
    }

    __device__ Line<T> final_line(uint32_t r) const {
        Row row = task.row(r);
        return {static_cast<T *>(at.out) + row.token() * args.out_stride + int64_t(row.head) * args.v_dim, nullptr};
    }
};

// States are softmaxes of the same ROWS rows over disjoint keys, in shared memory. Rows
// are padded so that the fragments of a warp hit all banks.
template <int STATES, int ROWS, int VDIM> struct States {
    static constexpr int STRIDE = VDIM + 8;
    static constexpr int BYTES = STATES * ROWS * (STRIDE + 2) * int(sizeof(float));

    float *memory;

    __device__ float *values(int state, int r) const { return memory + (state * ROWS + r) * STRIDE; }
    __device__ float &top(int state, int r) const { return memory[STATES * ROWS * STRIDE + state * ROWS + r]; }
    __device__ float &sum(int state, int r) const { return memory[STATES * ROWS * (STRIDE + 1) + state * ROWS + r]; }

    // combine writes rows warp, warp+warps, … of their sum, times worth. It runs once, so its loops stay
    // loops: unrolled, they were most of a kernel's code.
    template <class T> __device__ void combine(const Output<T> &out, const Scoring &scoring, float worth, int warp, int warps, int lane) const {
        constexpr int N = Vec<T>::N;
        for (uint32_t r = warp; r < out.task.item.rows; r += warps) {
            float high = NEG_INF, total = 0;
#pragma unroll 1
            for (int s = 0; s < STATES; s++) high = fmaxf(high, top(s, r));
#pragma unroll 1
            for (int s = 0; s < STATES; s++) total += sum(s, r) * scoring.weight(top(s, r), high);
            Finish finish(high, total, scoring.natural, out.sink(r));
            if (lane == 0) out.lse(r, finish.lse);
            Line<T> line = out.line(r);
#pragma unroll 1
            for (int dim = lane * N; dim < VDIM; dim += 32 * N) {
                float x[N] = {};
#pragma unroll 1
                for (int s = 0; s < STATES; s++) {
                    float share = scoring.weight(top(s, r), high) * finish.factor * worth;
#pragma unroll
                    for (int i = 0; i < N; i++) x[i] += share * values(s, r)[dim + i];
                }
                line.put(dim, x);
            }
        }
    }
};

} // namespace fkv
