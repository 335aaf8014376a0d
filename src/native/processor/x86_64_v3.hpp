// Whether this processor, and the operating system on it, run code for x86-64-v3: all of AVX, AVX2, BMI1, BMI2, F16C, FMA,
// LZCNT and MOVBE, on top of x86-64-v2. (The level is defined in the System V ABI, AMD64 supplement, table 3.1.)
#pragma once

#include <cstdint>

#if defined(_MSC_VER) && defined(_M_X64)
#include <immintrin.h>
#include <intrin.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

namespace sapwood {

#if defined(__x86_64__) || (defined(_MSC_VER) && defined(_M_X64))

namespace detail {

struct CpuidRegisters {
    std::uint32_t eax, ebx, ecx, edx;
};

// All zero where the processor has no such leaf.
inline CpuidRegisters cpuid(std::uint32_t leaf) {
#if defined(_MSC_VER)
    int highest[4], found[4];
    __cpuid(highest, static_cast<int>(leaf & 0x80000000U));
    if (static_cast<std::uint32_t>(highest[0]) < leaf) return {};
    __cpuidex(found, static_cast<int>(leaf), 0);
    return {static_cast<std::uint32_t>(found[0]), static_cast<std::uint32_t>(found[1]), static_cast<std::uint32_t>(found[2]),
            static_cast<std::uint32_t>(found[3])};
#else
    CpuidRegisters found{};
    if (!__get_cpuid_count(leaf, 0, &found.eax, &found.ebx, &found.ecx, &found.edx)) return {};
    return found;
#endif
}

// The register states that the operating system saves. Valid only where OSXSAVE is set.
inline std::uint64_t saved_states() {
#if defined(_MSC_VER)
    return _xgetbv(0);
#else
    std::uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (static_cast<std::uint64_t>(high) << 32) | low;
#endif
}

}  // namespace detail

inline bool has_x86_64_v3() {
    constexpr auto bits = [](auto... positions) { return ((1U << positions) | ...); };
    // x86-64-v2: SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT. x86-64-v3: FMA, MOVBE, OSXSAVE, AVX, F16C.
    constexpr std::uint32_t basic = bits(0, 9, 13, 19, 20, 23) | bits(12, 22, 27, 28, 29);
    constexpr std::uint32_t extended = bits(3, 5, 8);  // BMI1, AVX2, BMI2
    constexpr std::uint32_t amd = bits(0, 5);          // LAHF in 64-bit mode, LZCNT
    constexpr std::uint64_t vectors = bits(1, 2);      // the lower and upper halves of 32-byte registers
    const auto has_all = [](auto found, auto wanted) { return (found & wanted) == wanted; };
    return has_all(detail::cpuid(1).ecx, basic) && has_all(detail::cpuid(7).ebx, extended) &&
           has_all(detail::cpuid(0x80000001U).ecx, amd) && has_all(detail::saved_states(), vectors);
}

#else

inline bool has_x86_64_v3() { return false; }

#endif

}  // namespace sapwood
