// Boundary model: forward and backward over the tags of a sentence, and figures of merit of symbols at boundaries.
#include <algorithm>
#include <cmath>

#include "chart/coarse/coarse.hpp"
#include "core/scaling.hpp"

namespace sapwood {
namespace {

// Bring the largest value into [1/2, 1); returns the exponent taken out.
int rescale(double *values, Index size) {
    double largest = 0;
    for (Index x = 0; x < size; ++x) largest = std::max(largest, values[x]);
    if (!(largest > 0) || std::isinf(largest)) return 0;
    const int shift = binary_exponent(largest);
    const double scale = power_of_two(-shift);
    for (Index x = 0; x < size; ++x) values[x] *= scale;
    return shift;
}

// `target[s] = sum over tags t of weights[t] table[t, s]`.
template <class Real>
void mix_rows(const double *weights, Index n_tags, const float *table, Index size, Real *__restrict target) {
    std::fill(target, target + size, Real(0));
    for (Index t = 0; t < n_tags; ++t) {
        if (!(weights[t] > 0)) continue;
        const Real weight = static_cast<Real>(weights[t]);
        const float *row = table + t * size;
        for (Index s = 0; s < size; ++s) target[s] += weight * static_cast<Real>(row[s]);
    }
}

}  // namespace

template <class Real>
Scaled estimate_merits(const CoarseGrammar &g, const std::vector<const Leaf *> &leaves, bool tagged,
                       CoarseMemory<Real> &memory) {
    const Index n = static_cast<Index>(leaves.size()), n_symbols = g.n_symbols, n_tags = g.n_tags, width = n_tags + 1;
    Real *left = memory.left_merit.acquire((n + 1) * n_symbols), *right = memory.right_merit.acquire((n + 1) * n_symbols);
    int64_t *left_exponent = memory.left_exponent.acquire(n + 1), *right_exponent = memory.right_exponent.acquire(n + 1);
    double *words = memory.words.acquire(n * n_tags), *here = memory.tags.acquire(width),
           *there = memory.next_tags.acquire(width);
    double *forward = tagged ? memory.forward.acquire(n * n_tags) : nullptr;
    int32_t *best_tag = tagged ? memory.best_tag.acquire(n) : nullptr;
    std::vector<int64_t> word_exponent(n);
    std::fill(words, words + n * n_tags, 0.0);
    for (Index i = 0; i < n; ++i) {
        double *word = words + i * n_tags;
        for (std::size_t x = 0; x < leaves[i]->symbols.size(); ++x) {
            const int32_t s = leaves[i]->symbols[x];
            word[g.tag[s]] += g.tag_share[s] * leaves[i]->values[x];
        }
        word_exponent[i] = rescale(word, n_tags);
    }
    std::fill(here, here + width, 0.0);
    here[n_tags] = 1.0;
    left_exponent[0] = 0;
    for (Index i = 0; i <= n; ++i) {
        mix_rows(here, width, g.left.data(), n_symbols, left + i * n_symbols);
        if (i == n) break;
        std::fill(there, there + width, 0.0);
        for (Index t = 0; t < width; ++t)
            if (here[t] > 0)
                for (Index u = 0; u < width; ++u) there[u] += here[t] * g.transitions[t * width + u];
        for (Index t = 0; t < n_tags; ++t) here[t] = there[t] * words[i * n_tags + t];
        here[n_tags] = 0;
        left_exponent[i + 1] = left_exponent[i] + word_exponent[i] + rescale(here, width);
        if (tagged) std::copy(here, here + n_tags, forward + i * n_tags);
    }
    double total = 0;
    for (Index t = 0; t < n_tags; ++t) total += here[t] * g.transitions[t * width + n_tags];
    std::fill(here, here + width, 0.0);
    here[n_tags] = 1.0;
    right_exponent[n] = 0;
    for (Index j = n;; --j) {
        mix_rows(here, width, g.right.data(), n_symbols, right + j * n_symbols);
        if (j == 0) break;
        const double *word = words + (j - 1) * n_tags;
        Index best = 0;
        double most = 0;
        for (Index t = 0; t < n_tags; ++t) {
            double value = 0;
            if (word[t] > 0)
                for (Index u = 0; u < width; ++u) value += g.transitions[t * width + u] * here[u];
            there[t] = value * word[t];
            if (tagged && value * forward[(j - 1) * n_tags + t] > most) most = value * forward[(j - 1) * n_tags + t], best = t;
        }
        if (tagged) best_tag[j - 1] = static_cast<int32_t>(best);
        std::copy(there, there + n_tags, here);
        here[n_tags] = 0;
        right_exponent[j - 1] = right_exponent[j] + word_exponent[j - 1] + rescale(here, width);
    }
    return {total, left_exponent[n]};
}

template Scaled estimate_merits(const CoarseGrammar &, const std::vector<const Leaf *> &, bool, CoarseMemory<float> &);
template Scaled estimate_merits(const CoarseGrammar &, const std::vector<const Leaf *> &, bool, CoarseMemory<double> &);

}  // namespace sapwood
