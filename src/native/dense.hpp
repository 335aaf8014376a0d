// Sums of products over dense runs of numbers, written so that compilers vectorise them.
#pragma once

#include "views.hpp"

namespace sapwood {

// Return the inner product of two vectors (n).
template <class T> inline T dot(const T *x, const T *y, Index n) {
    T total = 0;
#pragma omp simd reduction(+ : total)
    for (Index i = 0; i < n; ++i) total += x[i] * y[i];
    return total;
}

// Fill `totals` (4) with the inner products of `x` (n) and four vectors one behind the other, `y` (4 n).
template <class T> inline void dot_four(const T *x, const T *y, Index n, T *totals) {
    const T *y1 = y + n, *y2 = y + 2 * n, *y3 = y + 3 * n;
    T t0 = 0, t1 = 0, t2 = 0, t3 = 0;
#pragma omp simd reduction(+ : t0, t1, t2, t3)
    for (Index i = 0; i < n; ++i) {
        t0 += x[i] * y[i];
        t1 += x[i] * y1[i];
        t2 += x[i] * y2[i];
        t3 += x[i] * y3[i];
    }
    totals[0] = t0, totals[1] = t1, totals[2] = t2, totals[3] = t3;
}

// Add `factor x` to `target` (n).
template <class S, class T> inline void add(S *__restrict target, S factor, const T *__restrict x, Index n) {
#pragma omp simd
    for (Index i = 0; i < n; ++i) target[i] += factor * x[i];
}

// Add four multiples of vectors to `target` (n): those one behind the other in `x` (4 n), by `factors` (4).
template <class S, class T>
inline void add_four(S *__restrict target, const T *__restrict factors, const T *__restrict x, Index n) {
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

// Add to M rows and N columns of C; see `add_product`.
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
void add_product(const T *a, Index row, Index column, const T *b, T *c, Index m, Index k, Index n) {
    Index i = 0;
    for (; i + 4 <= m; i += 4) detail::add_rows<4>(a + i * row, row, column, b, c + i * n, k, n);
    for (; i < m; ++i) detail::add_rows<1>(a + i * row, row, column, b, c + i * n, k, n);
}

}  // namespace sapwood
