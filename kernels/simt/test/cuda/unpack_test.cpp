// Elements of arithmetic that are made of floats of 4 and 8 bits: of every code with every exponent or small
// factor, rounded once.
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

// check_steps is of every code with every small factor, and as f32 a head's, whose products are rounded first.
template <class T, class Element> void check_steps(const char *type) {
    for (const float factor : {1.f, 0.7f, 1e-30f, 1e33f}) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            for (uint32_t first = 0; first < 16; first++) {
                uint32_t codes = 0;
                for (uint32_t i = 0; i < 8; i++) {
                    codes |= (first + 3 * i) % 16 << 4 * i;
                }
                alignas(16) T to[fkv::UNIT];
                fkv::unpack_steps(to, codes, byte, factor);
                for (uint32_t i = 0; i < 8; i++) {
                    Element got;
                    std::memcpy(&got, &to[i], sizeof got);
                    const auto step = static_cast<float>(small_float(FKV_STORAGE_FP8E4M3, byte) * (sizeof(T) == 4 ? factor : 1));
                    const auto exact = static_cast<float>(step * small_float(FKV_STORAGE_NVFP4, codes >> 4 * i & 15));
                    where = std::string("factor ") + std::to_string(byte) + ", codes " + std::to_string(codes) + ", " + type;
                    demand((byte & 0x7f) == 0x7f ? std::isnan(value(got)) : same_bits(got, rounded<Element>(exact)), "an element is wrong");
                }
            }
        }
    }
}

// check_floats is of every 8-bit float: elements of 16 bits are what it is worth, those of f32 times a scale.
template <class T, class Element> void check_floats(uint32_t storage, const char *type) {
    for (const float scale : {1.f, 0.7f, 3e38f}) {
        for (uint32_t first = 0; first < 256; first++) {
            fkv::Codes codes = {};
            for (uint32_t i = 0; i < fkv::UNIT; i++)
                codes.at[i / 4] |= (first + 37 * i) % 256 << 8 * (i % 4);
            alignas(16) T to[fkv::UNIT];
            fkv::unpack_floats(to, {storage}, codes, scale);
            for (uint32_t i = 0; i < fkv::UNIT; i++) {
                Element got;
                std::memcpy(&got, &to[i], sizeof got);
                const uint32_t code = codes.at[i / 4] >> 8 * (i % 4) & 255;
                const double exact = small_float(storage, code);
                where = std::string("code ") + std::to_string(code) + ", " + type;
                demand(std::isnan(exact) ? std::isnan(value(got)) : same_bits(got, rounded<Element>(sizeof(T) == 4 ? float(exact * scale) : float(exact))),
                       "an element is wrong");
            }
        }
    }
}

} // namespace

int main() {
    for (const uint32_t storage : {FKV_STORAGE_FP8E4M3, FKV_STORAGE_FP8E5M2}) {
        check_floats<fkv::half, F16>(storage, "f16");
        check_floats<fkv::bfloat, BF16>(storage, "bf16");
        check_floats<float, float>(storage, "f32");
    }

    check<fkv::half, F16>("f16");
    check<fkv::bfloat, BF16>("bf16");
    check<float, float>("f32");
    check_steps<fkv::half, F16>("f16");
    check_steps<fkv::bfloat, BF16>("bf16");
    check_steps<float, float>("f32");
    std::puts("elements of small floats: ok");
}
