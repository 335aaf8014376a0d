// Learning without trees: what the kernels of this folder share.
//
// Sentences are numbers of words (or of tags, or of classes of words), one behind the other. The spans of a sentence of n
// words, `i .. j - 1` with i < j, are numbered by their first word and then by their width; weights and posteriors of
// all spans of all sentences stand one behind the other, too.
#pragma once

#include <algorithm>
#include <vector>

#include "core/module.hpp"
#include "core/records.hpp"
#include "core/scaling.hpp"
#include "core/views.hpp"

namespace sapwood {

struct Sentences {
    Vector<const int32_t> words;    // (words)
    Vector<const int64_t> offsets;  // (sentences + 1): where each begins

    static constexpr auto fields() {
        return std::make_tuple(field("words", &Sentences::words), field("offsets", &Sentences::offsets));
    }
    Index count() const { return offsets.size() - 1; }
    Index length(Index sentence) const { return offsets[sentence + 1] - offsets[sentence]; }
};

inline Index n_spans(Index n) { return n * (n + 1) / 2; }

// The number of the words from `i` up to `j`, j not included, among the spans of a sentence of n words.
inline Index span_number(Index i, Index j, Index n) { return i * n - i * (i - 1) / 2 + (j - i - 1); }

// The exponents of spans, and by what the products of the parts of a span are multiplied to have a common one.
//
// A number of a span is what is stored times 2^exponent. Where a span is divided before `m`, products have the exponent
// of both parts; that of the whole span is the largest of these until `settle` moves it.
struct Exponents {
    std::vector<Index> of;
    std::vector<double> factor;  // by the place of the division

    void begin(Index n) {
        of.assign(n_spans(n), 0);
        factor.assign(n + 1, 0.0);
    }
    // Set `factor` for the span `i .. j`, relative to its exponent; if that is not known yet, it is set first.
    void divide(Index i, Index j, Index n, bool known) {
        Index &own = of[span_number(i, j, n)];
        if (!known) {
            own = of[span_number(i, i + 1, n)] + of[span_number(i + 1, j, n)];
            for (Index m = i + 2; m < j; ++m) own = std::max(own, of[span_number(i, m, n)] + of[span_number(m, j, n)]);
        }
        for (Index m = i + 1; m < j; ++m) factor[m] = power_of_two(of[span_number(i, m, n)] + of[span_number(m, j, n)] - own);
    }
    // Take the size of the largest number into the exponent; returns what all are to be multiplied by. Where there is
    // nothing but zeros, the exponent is one that no other gives way to.
    double settle(Index span, double largest) {
        if (!(largest > 0)) {
            of[span] = -(Index{1} << 40);
            return 0;
        }
        const int exponent = binary_exponent(largest);
        of[span] += exponent;
        return power_of_two(-exponent);
    }
};

void bind_heads(nanobind::module_ &module);
void bind_constituents(nanobind::module_ &module);
void bind_independent(nanobind::module_ &module);
void bind_best_trees(nanobind::module_ &module);

}  // namespace sapwood
