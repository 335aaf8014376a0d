// Functions that training and inference of the span scorer share: activations, layer normalisation, SRU.
#pragma once

#include <bit>
#include <cmath>

#include "core/views.hpp"

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

// One layer of a simple recurrent unit (Lei et al. 2018) over `steps` steps, for `width` numbers side by side: candidates,
// forget gates and reset gates are `gates[t * step + 0 | layer | 2 layer ...]`. The gates become their logistic values.
// `activation` is the tanh of the cells; the reset gate mixes it with `skip`. `direction` is 1 or -1 (from the last step on).
struct SRURun {
    Index steps, width, layer, step, out_step;
    int direction;
};

inline void run_sru(const SRURun &run, float *gates, const float *bias, const float *skip, float *cell, float *activation,
                    float *out) {
    const Index first = run.direction > 0 ? 0 : run.steps - 1;
    for (Index s = 0, t = first; s < run.steps; ++s, t += run.direction) {
        float *candidate = gates + t * run.step, *forget = candidate + run.layer, *reset = forget + run.layer;
        const Index at = t * run.out_step;
        const float *before = s ? cell + at - run.direction * run.out_step : nullptr;
#pragma omp simd
        for (Index x = 0; x < run.width; ++x) {
            forget[x] = logistic(forget[x] + bias[x]);
            reset[x] = logistic(reset[x] + bias[run.layer + x]);
        }
        if (before) {
#pragma omp simd
            for (Index x = 0; x < run.width; ++x) cell[at + x] = candidate[x] + forget[x] * (before[x] - candidate[x]);
        } else {
#pragma omp simd
            for (Index x = 0; x < run.width; ++x) cell[at + x] = (1.0f - forget[x]) * candidate[x];
        }
#pragma omp simd
        for (Index x = 0; x < run.width; ++x) {
            activation[at + x] = quick_tanh(cell[at + x]);
            out[at + x] = skip[at + x] + reset[x] * (activation[at + x] - skip[at + x]);
        }
    }
}

}  // namespace sapwood
