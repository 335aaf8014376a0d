// Powers of two as scale factors: exact, and without calls to the mathematical library.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace sapwood {

// Return 2^exponent; 0 below the range of doubles, the largest power of two above it.
inline double power_of_two(std::int64_t exponent) {
    if (exponent < -1074) return 0.0;
    exponent = std::min<std::int64_t>(exponent, 1023);
    const bool normal = exponent >= -1022;
    const auto one = std::uint64_t{1};
    return std::bit_cast<double>(normal ? std::uint64_t(exponent + 1023) << 52 : one << (exponent + 1074));
}

// Return the exponent e with 2^(e - 1) <= |value| < 2^e as frexp does, but 0 for 0 and at least -1022: its inverse is
// then still a power of two in double precision.
inline int binary_exponent(double value) {
    if (value == 0) return 0;
    return static_cast<int>(std::bit_cast<std::uint64_t>(value) >> 52 & 0x7ff) - 1022;
}

}  // namespace sapwood
