// Sums over all binary trees whose spans have scores: the conditional random field that networks are trained as.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "span_scorer/forward.hpp"

namespace sapwood {

// All binary trees over n words: a tree scores the sum of its spans'. `number(i, j)` is where a span of two words or more has
// its score and its marginal.
template <class Number> class BinaryTrees {
  public:
    BinaryTrees(Index n, Number number)
        : n(n), side(n + 1), number(number), inside(side * side), mirrored(side * side), split(side * side),
          outside(side * side) {}

    // Fill the marginals; returns the logarithm of the sum over trees.
    double sum(const double *score, double *marginal) {
        for (Index i = 0; i < n; ++i) inside[i * side + i + 1] = mirrored[(i + 1) * side + i] = 0;
        for (Index width = 2; width <= n; ++width)
            for (Index i = 0, j = width; j <= n; ++i, ++j) {
                const double *left = &inside[i * side], *right = &mirrored[j * side];
                double largest = left[i + 1] + right[i + 1], total = 0;
#pragma omp simd reduction(max : largest)
                for (Index k = i + 2; k < j; ++k) largest = std::max(largest, left[k] + right[k]);
#pragma omp simd reduction(+ : total)
                for (Index k = i + 1; k < j; ++k) total += quick_exp(static_cast<float>(left[k] + right[k] - largest));
                split[i * side + j] = largest + std::log(total);
                inside[i * side + j] = mirrored[j * side + i] = split[i * side + j] + score[number(i, j)];
            }
        std::fill(outside.begin(), outside.end(), 0.0);
        outside[n] = 1;
        for (Index width = n; width >= 2; --width)
            for (Index i = 0, j = width; j <= n; ++i, ++j) {
                const double mass = outside[i * side + j];
                marginal[number(i, j)] = mass;
                if (mass < 1e-7) continue;
                const double *left = &inside[i * side], *right = &mirrored[j * side], total = split[i * side + j];
                for (Index k = i + 1; k < j; ++k) {
                    const double part = mass * quick_exp(static_cast<float>(left[k] + right[k] - total));
                    outside[i * side + k] += part;
                    outside[k * side + j] += part;
                }
            }
        return inside[n];
    }

  private:
    Index n, side;
    Number number;
    std::vector<double> inside, mirrored, split, outside;
};

}  // namespace sapwood
