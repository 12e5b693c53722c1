// Merge, against sums in double, and the probes.
#include "rig.h"

using namespace rig;

namespace {

constexpr float NOTHING = -std::numeric_limits<float>::infinity();

// empty says that a part has no keys. Its log-sum-exp is infinite, of either sign.
bool empty(float lse) { return std::isinf(lse); }

struct Shape {
    uint32_t parts, tokens, heads, dim;
    int64_t gap; // between the rows of two tokens
    bool lse;
    size_t shift;
    bool in_place = false; // the merged log-sum-exps take the place of the first part's
};

template <class In, class Out> void check_merge(const Shape &s) {
    where = std::string("merge ") + type_name<In> + " to " + type_name<Out> + ", " + std::to_string(s.parts) +
            " parts of dim " + std::to_string(s.dim);
    const size_t rows = size_t{s.tokens} * s.heads;
    const int64_t stride = s.heads * s.dim + s.gap;
    Memory<In> in(s.parts * rows * s.dim, s.shift);
    Memory<float> lse(s.parts * rows, 1), out_lse(rows, 1);
    Memory<Out> out(s.tokens * static_cast<size_t>(stride), s.shift);
    in.fill();
    for (size_t row = 0; row < rows; row++) {
        for (uint32_t part = 0; part < s.parts; part++) {
            const size_t at = part * rows + row;
            // Parts without keys, rows of which all are, one far below the others, and large ones.
            lse[at] = static_cast<float>(row % 5 == 3 ? 90 + normal() : 5 * normal());
            if (row % 5 == 4 || (row + part) % 4 == 3) {
                lse[at] = row % 3 == 0 || (row % 3 == 1 && part % 2 == 0) ? -NOTHING : NOTHING;
            } else if (row % 20 == 1 && part == 1) {
                lse[at] = -400;
            }
            if (lse[at] <= -400 || empty(lse[at])) { // such rows may hold anything
                std::memset(&in[at * s.dim], 0xff, s.dim * sizeof(In));
            }
        }
    }
    std::vector<Out> others = out.copy();
    const std::vector<float> given = lse.copy();
    float *merged = s.in_place ? lse.data() : out_lse.data();
    fkv_merge_args args{};
    args.parts = s.parts, args.out_stride = stride, args.tokens = s.tokens, args.heads = s.heads, args.dim = s.dim;
    launch(std::string("fkv_merge_") + type_name<In> + "_" + type_name<Out>, line(),
           {in.data(), lse.data(), out.data(), s.lse ? merged : nullptr}, args);

    constexpr double limit = std::is_same_v<Out, float> ? 3e-6 : step<Out>;
    for (size_t row = 0; row < rows; row++) {
        double top = NOTHING, sum = 0;
        for (uint32_t part = 0; part < s.parts; part++) {
            const float x = given[part * rows + row];
            top = std::max(top, double{empty(x) ? NOTHING : x});
        }
        std::vector<double> want(s.dim), scale(s.dim, 1e-3); // of rounding errors
        for (uint32_t part = 0; part < s.parts; part++) {
            const size_t at = part * rows + row;
            if (given[at] > -400 && !empty(given[at])) {
                const double weight = std::exp(given[at] - top);
                sum += weight;
                for (uint32_t c = 0; c < s.dim; c++) {
                    want[c] += weight * value(in[at * s.dim + c]);
                    scale[c] += weight * std::fabs(value(in[at * s.dim + c]));
                }
            }
        }
        const size_t first = row / s.heads * static_cast<size_t>(stride) + row % s.heads * s.dim;
        for (uint32_t c = 0; c < s.dim; c++) {
            const double have = value(out[first + c]);
            if (sum == 0) {
                demand(have == 0 && !std::signbit(have), "a row of nothing is not zero");
            } else {
                demand(std::fabs(have - want[c] / sum) <= limit * scale[c] / sum, "a row is not the sum of its parts");
            }
            others[first + c] = out[first + c];
        }
        if (!s.lse) {
            demand(std::isnan(out_lse[row]), "a log-sum-exp was written that nobody wanted");
        } else if (sum == 0) {
            demand(merged[row] == NOTHING, "the log-sum-exp of nothing is not -inf");
        } else {
            const double error = std::fabs(merged[row] - (top + std::log(sum)));
            demand(error <= 1e-6 * (1 + std::fabs(top)), "a log-sum-exp is wrong");
        }
    }
    out.expect(others, "what lies between the rows");
}

template <class In, class Out> void merge_all() {
    const Shape shapes[] = {
        {1, 3, 2, 64, 0, true, 0},   {2, 7, 3, 128, 0, true, 0},  {3, 5, 2, 80, 16, false, 0},
        {33, 5, 1, 64, 0, true, 0},  {70, 6, 1, 192, 8, true, 0}, {2, 5, 2, 1, 0, true, 0},
        {4, 5, 3, 7, 3, true, 0},    {3, 5, 1, 1030, 0, true, 0}, {5, 5, 2, 1536, 0, true, 0},
        {3, 4, 2, 64, 5, true, 0},   {3, 4, 2, 64, 0, true, 1},   {2, 0, 4, 64, 0, true, 0},
        {3, 7, 3, 1030, 0, true, 0, true},
    };
    for (const Shape &s : shapes) {
        check_merge<In, Out>(s);
    }
}

void check_probe_mma(const char *type) {
    where = std::string("probe of matrix products, ") + type;
    float result[2];
    for (uint32_t i : {0, 1}) {
        Memory<float> out(1);
        fkv_probe_mma_args args{};
        args.iterations = 2 + 2 * i;
        launch(std::string("fkv_probe_mma_") + type, line(), {out.data()}, args);
        result[i] = out[0];
    }
    demand(result[0] > 0 && std::fabs(result[1] - 2 * result[0]) < 1e-3 * result[0],
           "twice the rounds do not give twice the sum");
}

void check_probe_read(size_t runs) {
    where = "probe of reading " + std::to_string(16 * runs) + " bytes";
    Memory<uint32_t> source(4 * runs), out(1);
    uint32_t want = out[0] = 17;
    for (size_t i = 0; i < source.size(); i++) {
        want += source[i] = static_cast<uint32_t>(generator());
    }
    fkv_probe_read_args args{};
    args.bytes = static_cast<int64_t>(16 * runs);
    launch("fkv_probe_read", line(), {source.data(), out.data()}, args);
    demand(out[0] == want, "not every word was read once");
}

} // namespace

int main() {
    merge_all<float, float>();
    merge_all<F16, F16>();
    merge_all<BF16, BF16>();
    merge_all<float, F16>();
    merge_all<float, BF16>();
    check_probe_mma("f16");
#ifndef FKV_METAL
    check_probe_mma("bf16");
#endif
    for (size_t runs : {0, 1, 255, 256, 257, 1024, 5000}) {
        check_probe_read(runs);
    }
    std::puts("merge and probes: ok");
}
