// Elements of arithmetic that are made of E2M1: of every code with every exponent, rounded once.
#include "../plane.h"

#include "unpack.cuh"

using namespace rig;

namespace {

template <class T, class Element> void check(const char *type) {
    for (uint32_t exponent = 0; exponent < 256; exponent++) {
        for (uint32_t first = 0; first < 16; first++) {
            uint32_t codes = 0;
            for (uint32_t i = 0; i < 8; i++) {
                codes |= (first + 3 * i) % 16 << 4 * i;
            }
            alignas(16) T to[fkv::UNIT];
            fkv::unpack_float4(to, codes, exponent);
            for (uint32_t i = 0; i < 8; i++) {
                const unsigned code = codes >> 4 * i & 15;
                Element got;
                std::memcpy(&got, &to[i], sizeof got);
                const double exact = std::ldexp(small_float(FKV_STORAGE_MXFP4, code), int(exponent) - 127);
                where = std::string("exponent ") + std::to_string(exponent) + ", code " + std::to_string(code) + ", " + type;
                demand(exponent == 255 ? std::isnan(value(got)) : same_bits(got, rounded<Element>(exact)), "an element is wrong");
            }
        }
    }
}

// check_steps is of every code with steps of every small factor, whose products are rounded to an f32 first.
template <class T, class Element> void check_steps(const char *type) {
    for (const float factor : {1.f, 0.7f, 1e-30f, 1e33f}) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            for (uint32_t first = 0; first < 16; first++) {
                uint32_t codes = 0;
                for (uint32_t i = 0; i < 8; i++) {
                    codes |= (first + 3 * i) % 16 << 4 * i;
                }
                alignas(16) T to[fkv::UNIT];
                fkv::unpack_steps(to, codes, fkv::step_of(byte, factor));
                for (uint32_t i = 0; i < 8; i++) {
                    Element got;
                    std::memcpy(&got, &to[i], sizeof got);
                    const auto step = static_cast<float>(small_float(FKV_STORAGE_FP8E4M3, byte) * factor);
                    const auto exact = static_cast<float>(step * small_float(FKV_STORAGE_NVFP4, codes >> 4 * i & 15));
                    where = std::string("factor ") + std::to_string(byte) + ", codes " + std::to_string(codes) + ", " + type;
                    demand((byte & 0x7f) == 0x7f ? std::isnan(value(got)) : same_bits(got, rounded<Element>(exact)), "an element is wrong");
                }
            }
        }
    }
}

} // namespace

int main() {
    check<fkv::half, F16>("f16");
    check<fkv::bfloat, BF16>("bf16");
    check<float, float>("f32");
    check_steps<fkv::half, F16>("f16");
    check_steps<fkv::bfloat, BF16>("bf16");
    check_steps<float, float>("f32");
    std::puts("elements of E2M1: ok");
}
