// Elements of arithmetic that are made of E2M1: of every code with every exponent, rounded once.
#include "plane.h"

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

} // namespace

int main() {
    check<fkv::half, F16>("f16");
    check<fkv::bfloat, BF16>("bf16");
    check<float, float>("f32");
    std::puts("elements of E2M1: ok");
}
