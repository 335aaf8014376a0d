// What the network that scores spans does with numbers, for learning it and for using it.
#pragma once

#include <bit>
#include <cmath>

#include "views.hpp"

namespace sapwood {

// The exponential function within 2e-7 of itself, in operations that compilers vectorise; 0 and infinity are out of reach.
inline float quick_exp(float x) {
    x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    // x = k log 2 + rest: adding 1.5 * 2 ** 23 rounds.
    const float rounder = 12582912.0f, shifted = x * 1.44269504f + rounder, k = shifted - rounder;
    const float rest = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    float sum = 1.9875691500e-4f;
    for (const float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
        sum = sum * rest + c;
    sum = sum * rest * rest + rest + 1.0f;
    const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(rounder);
    return sum * std::bit_cast<float>((exponent + 127) << 23);
}

inline float logistic(float x) { return 1.0f / (1.0f + quick_exp(-x)); }

inline float quick_tanh(float x) { return 2.0f / (1.0f + quick_exp(-2.0f * x)) - 1.0f; }

// Shift and scale a row (size) to mean 0 and variance 1; returns the scale.
inline float standardise(float *row, Index size) {
    float mean = 0, square = 0;
#pragma omp simd reduction(+ : mean)
    for (Index x = 0; x < size; ++x) mean += row[x];
    mean /= static_cast<float>(size);
#pragma omp simd reduction(+ : square)
    for (Index x = 0; x < size; ++x) {
        row[x] -= mean;
        square += row[x] * row[x];
    }
    const float scale = 1.0f / std::sqrt(square / static_cast<float>(size) + 1e-5f);
#pragma omp simd
    for (Index x = 0; x < size; ++x) row[x] *= scale;
    return scale;
}

// One layer's gates over a run of `steps` steps, for `width` numbers side by side: candidates, gates to keep and gates to
// show are `gates[t * step + 0 | layer | 2 layer ...]`. The gates become their logistic values. Cells are what is kept, shown
// through tanh; what is not shown comes from `skip`. `direction` is 1 or -1 (then from the last step on).
struct GateRun {
    Index steps, width, layer, step, out_step;
    int direction;
};

inline void run_gates(const GateRun &run, float *gates, const float *bias, const float *skip, float *cell, float *shown, float *out) {
    const Index first = run.direction > 0 ? 0 : run.steps - 1;
    for (Index s = 0, t = first; s < run.steps; ++s, t += run.direction) {
        float *candidate = gates + t * run.step, *keep = candidate + run.layer, *show = keep + run.layer;
        const Index at = t * run.out_step;
        const float *before = s ? cell + at - run.direction * run.out_step : nullptr;
#pragma omp simd
        for (Index x = 0; x < run.width; ++x) {
            keep[x] = logistic(keep[x] + bias[x]);
            show[x] = logistic(show[x] + bias[run.layer + x]);
        }
        if (before) {
#pragma omp simd
            for (Index x = 0; x < run.width; ++x) cell[at + x] = candidate[x] + keep[x] * (before[x] - candidate[x]);
        } else {
#pragma omp simd
            for (Index x = 0; x < run.width; ++x) cell[at + x] = (1.0f - keep[x]) * candidate[x];
        }
#pragma omp simd
        for (Index x = 0; x < run.width; ++x) {
            shown[at + x] = quick_tanh(cell[at + x]);
            out[at + x] = skip[at + x] + show[x] * (shown[at + x] - skip[at + x]);
        }
    }
}

}  // namespace sapwood
