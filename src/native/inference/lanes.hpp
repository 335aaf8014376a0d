// Sixteen numbers at a time.
#pragma once

#include <cstdint>

#if defined(__AVX__) || defined(__SSE2__)
#include <immintrin.h>
#endif

namespace sapwood {

constexpr int lanes = 16;

constexpr std::int64_t whole_lanes(std::int64_t size) { return (size + lanes - 1) / lanes * lanes; }

inline int lowest_bit(std::uint64_t word) { return __builtin_ctzll(word); }

// Bit `x` is set where `values[x] * factors[x] > limit`, for x below 16.
template <class Real> inline std::uint32_t lanes_above(const Real *values, const Real *factors, Real limit) {
    std::uint32_t above = 0;
    for (int x = 0; x < lanes; ++x) above |= static_cast<std::uint32_t>(values[x] * factors[x] > limit) << x;
    return above;
}

#if defined(__AVX__)
template <> inline std::uint32_t lanes_above(const float *values, const float *factors, float limit) {
    const __m256 bound = _mm256_set1_ps(limit);
    std::uint32_t above = 0;
    for (int half = 0; half < 2; ++half) {
        const __m256 product = _mm256_mul_ps(_mm256_loadu_ps(values + 8 * half), _mm256_loadu_ps(factors + 8 * half));
        above |= static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(product, bound, _CMP_GT_OQ))) << (8 * half);
    }
    return above;
}
#elif defined(__SSE2__)
template <> inline std::uint32_t lanes_above(const float *values, const float *factors, float limit) {
    const __m128 bound = _mm_set1_ps(limit);
    std::uint32_t above = 0;
    for (int part = 0; part < 4; ++part) {
        const __m128 product = _mm_mul_ps(_mm_loadu_ps(values + 4 * part), _mm_loadu_ps(factors + 4 * part));
        above |= static_cast<std::uint32_t>(_mm_movemask_ps(_mm_cmpgt_ps(product, bound))) << (4 * part);
    }
    return above;
}
#endif

// `total[0 .. 16) = sum over x < count of weights[x] rows[splits[x] * stride + 0 .. 16)`.
template <class Real>
inline void sum_lanes(Real *__restrict total, const std::int32_t *splits, const Real *weights, std::int64_t count,
                      const Real *rows, std::int64_t stride) {
    Real sum[lanes] = {};
    for (std::int64_t x = 0; x < count; ++x) {
        const Real *row = rows + splits[x] * stride;
        const Real weight = weights[x];
#pragma omp simd
        for (int y = 0; y < lanes; ++y) sum[y] += weight * row[y];
    }
    for (int y = 0; y < lanes; ++y) total[y] = sum[y];
}

}  // namespace sapwood
