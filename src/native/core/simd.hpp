// Vectorised loops: sums of products over dense runs of numbers, and masks of sixteen numbers at a time.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__AVX__) || defined(__SSE2__)
#include <immintrin.h>
#endif

#include "core/index.hpp"

namespace sapwood {

#if defined(__GNUC__) || defined(__clang__)

namespace detail {

// Sums of products in a vector of 32 bytes.
//
// `#pragma omp simd reduction` would add up its lanes one after the other, which for short vectors takes longer than the
// products; here halves are added to halves.
template <class T> struct PartialSums {
    typedef T Vector __attribute__((vector_size(32)));
    static constexpr Index width = 32 / sizeof(T);
    Vector sums = {};

    // Add the products of as many numbers as there are lanes.
    void add(const T *x, const T *y) {
        Vector a, b;
        std::memcpy(&a, x, sizeof a);
        std::memcpy(&b, y, sizeof b);
        sums += a * b;
    }
    T total() const {
        if constexpr (width == 4) return (sums[0] + sums[2]) + (sums[1] + sums[3]);
        else return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
    }
};

}  // namespace detail

// Return the inner product of two vectors (n). Four sums go side by side: no addition need wait for another's.
template <class T> inline T dot(const T *x, const T *y, Index n) {
    constexpr Index width = detail::PartialSums<T>::width;
    detail::PartialSums<T> a, b, c, d;
    Index i = 0;
    for (; i + 4 * width <= n; i += 4 * width) {
        a.add(x + i, y + i);
        b.add(x + i + width, y + i + width);
        c.add(x + i + 2 * width, y + i + 2 * width);
        d.add(x + i + 3 * width, y + i + 3 * width);
    }
    for (; i + width <= n; i += width) a.add(x + i, y + i);
    a.sums = (a.sums + b.sums) + (c.sums + d.sums);
    T total = a.total();
    for (; i < n; ++i) total += x[i] * y[i];
    return total;
}

// Fill `totals` (4) with the inner products of `x` (n) and four vectors.
template <class T> inline void dot_four(const T *x, const T *const (&y)[4], Index n, T *totals) {
    detail::PartialSums<T> a, b, c, d;
    Index i = 0;
    for (; i + a.width <= n; i += a.width) {
        a.add(x + i, y[0] + i);
        b.add(x + i, y[1] + i);
        c.add(x + i, y[2] + i);
        d.add(x + i, y[3] + i);
    }
    totals[0] = a.total();
    totals[1] = b.total();
    totals[2] = c.total();
    totals[3] = d.total();
    for (; i < n; ++i)
        for (int k = 0; k < 4; ++k) totals[k] += x[i] * y[k][i];
}

#else

template <class T> inline T dot(const T *x, const T *y, Index n) {
    T total = 0;
    for (Index i = 0; i < n; ++i) total += x[i] * y[i];
    return total;
}

template <class T> inline void dot_four(const T *x, const T *const (&y)[4], Index n, T *totals) {
    for (int k = 0; k < 4; ++k) totals[k] = dot(x, y[k], n);
}

#endif

// Fill `totals` (4) with the inner products of `x` (n) and four vectors one behind the other, `y` (4 n).
template <class T> inline void dot_four(const T *x, const T *y, Index n, T *totals) {
    dot_four(x, {y, y + n, y + 2 * n, y + 3 * n}, n, totals);
}

// Add `factor x` to `target` (n).
template <class S, class T> inline void axpy(S *__restrict target, S factor, const T *__restrict x, Index n) {
#pragma GCC unroll 32
    for (Index i = 0; i < n; ++i) target[i] += factor * x[i];
}

// Add four multiples of vectors to `target` (n): those one behind the other in `x` (4 n), by `factors` (4).
template <class S, class T>
inline void axpy_four(S *__restrict target, const T *__restrict factors, const T *__restrict x, Index n) {
    const T f0 = factors[0], f1 = factors[1], f2 = factors[2], f3 = factors[3];
    const T *x1 = x + n, *x2 = x + 2 * n, *x3 = x + 3 * n;
#pragma omp simd
    for (Index i = 0; i < n; ++i) target[i] += f0 * x[i] + f1 * x1[i] + f2 * x2[i] + f3 * x3[i];
}

// Fill `target` (n m) with the outer product of `x` (n) and `y` (m).
template <class T> inline void outer(const T *x, Index n, const T *__restrict y, Index m, T *__restrict target) {
    for (Index i = 0; i < n; ++i) {
        const T factor = x[i];
        T *row = target + i * m;
#pragma omp simd
        for (Index j = 0; j < m; ++j) row[j] = factor * y[j];
    }
}

namespace detail {

// Add to N numbers; see `add_rows`.
template <int N, class T>
inline void add_columns(T *__restrict target, const T *__restrict factors, const T *__restrict rows, Index count, Index width) {
    T sums[N];
    for (int i = 0; i < N; ++i) sums[i] = target[i];
    for (Index x = 0; x < count; ++x) {
        const T factor = factors[x];
#pragma omp simd
        for (int i = 0; i < N; ++i) sums[i] += factor * rows[x * width + i];
    }
    for (int i = 0; i < N; ++i) target[i] = sums[i];
}

}  // namespace detail

// Add multiples of rows (count, width) to `target` (width, a multiple of eight), by `factors` (count), one after the other.
template <class T>
inline void add_rows(T *__restrict target, const T *__restrict factors, const T *__restrict rows, Index count, Index width) {
    Index i = 0;
    for (; i + 32 <= width; i += 32) detail::add_columns<32>(target + i, factors, rows + i, count, width);
    for (; i + 16 <= width; i += 16) detail::add_columns<16>(target + i, factors, rows + i, count, width);
    for (; i < width; i += 8) detail::add_columns<8>(target + i, factors, rows + i, count, width);
}

namespace detail {

// Add to M rows and N columns of C; see `gemm`.
template <int M, int N, class T>
inline void add_tile(const T *a, Index row, Index column, const T *__restrict b, T *__restrict c, Index k, Index n) {
    T sums[M][N];
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) sums[i][j] = c[i * n + j];
    for (Index l = 0; l < k; ++l)
        for (int i = 0; i < M; ++i) {
            const T factor = a[i * row + l * column];
#pragma omp simd
            for (int j = 0; j < N; ++j) sums[i][j] += factor * b[l * n + j];
        }
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) c[i * n + j] = sums[i][j];
}

template <int M, class T>
inline void add_rows(const T *a, Index row, Index column, const T *b, T *c, Index k, Index n) {
    constexpr int N = 64 / sizeof(T);
    Index j = 0;
    for (; j + N <= n; j += N) add_tile<M, N>(a, row, column, b + j, c + j, k, n);
    for (; j + 4 <= n; j += 4) add_tile<M, 4>(a, row, column, b + j, c + j, k, n);
    for (; j < n; ++j) add_tile<M, 1>(a, row, column, b + j, c + j, k, n);
}

}  // namespace detail

// Add the matrix product A B to C (m, n). Element (i, l) of A (m, k) is `a[i * row + l * column]`; rows of B (k, n) and C
// stand one behind the other.
template <class T>
void gemm(const T *a, Index row, Index column, const T *b, T *c, Index m, Index k, Index n) {
    Index i = 0;
    for (; i + 4 <= m; i += 4) detail::add_rows<4>(a + i * row, row, column, b, c + i * n, k, n);
    for (; i < m; ++i) detail::add_rows<1>(a + i * row, row, column, b, c + i * n, k, n);
}

constexpr int lanes = 16;

constexpr std::int64_t round_up_to_lanes(std::int64_t size) { return (size + lanes - 1) / lanes * lanes; }

inline int lowest_bit(std::uint64_t word) { return std::countr_zero(word); }

// Bit `x` is set where `values[x] * factors[x] > limit`, for x below 16.
template <class Real> inline std::uint32_t mask_above(const Real *values, const Real *factors, Real limit) {
    std::uint32_t above = 0;
    for (int x = 0; x < lanes; ++x) above |= static_cast<std::uint32_t>(values[x] * factors[x] > limit) << x;
    return above;
}

#if defined(__AVX__)
template <> inline std::uint32_t mask_above(const float *values, const float *factors, float limit) {
    const __m256 bound = _mm256_set1_ps(limit);
    std::uint32_t above = 0;
    for (int half = 0; half < 2; ++half) {
        const __m256 product = _mm256_mul_ps(_mm256_loadu_ps(values + 8 * half), _mm256_loadu_ps(factors + 8 * half));
        above |= static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(product, bound, _CMP_GT_OQ))) << (8 * half);
    }
    return above;
}
#elif defined(__SSE2__)
template <> inline std::uint32_t mask_above(const float *values, const float *factors, float limit) {
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
