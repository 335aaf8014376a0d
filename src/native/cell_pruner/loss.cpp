// Training of the cell pruner: logistic regression over all cells of many sentences.
#include <cmath>

#include "cell_pruner/features.hpp"
#include "chart/grammar.hpp"
#include "core/module.hpp"

namespace sapwood {
namespace {

// Tags and kinds of the words of many sentences, one behind the other; sentence s begins at `offsets[s]` (sentences + 1), its
// cells at `cell_offsets[s]` (sentences + 1).
struct Sentences {
    Vector<const int64_t> offsets, cell_offsets;
    Vector<const int32_t> tags, kinds;

    Index count() const { return offsets.size() - 1; }
    Index length(Index s) const { return offsets[s + 1] - offsets[s]; }
    CellFeatures features(Index s, int bits) const {
        return {tags.slice(offsets[s], offsets[s + 1]).data, kinds.slice(offsets[s], offsets[s + 1]).data, length(s), bits};
    }
};

// The loss of weights (2^bits), -log p(open) or -log p(closed) of all cells, given which are `open` (cells), and its gradient.
double cell_pruner_loss(Vector<const double> weights, int bits, Vector<const int64_t> offsets,
                        Vector<const int64_t> cell_offsets, Vector<const int32_t> tags, Vector<const int32_t> kinds,
                        Vector<const bool> open, Vector<double> gradient) {
    const Sentences sentences{offsets, cell_offsets, tags, kinds};
    constexpr int of_boundary = CellFeatures::of_boundary;
    double loss = 0;
    uint32_t slots[CellFeatures::of_cell];
    std::vector<double> left, right, left_pull, right_pull;
    for (Index s = 0; s < sentences.count(); ++s) {
        const Index n = sentences.length(s);
        const CellFeatures features = sentences.features(s, bits);
        left.assign(n + 1, 0.0);
        right.assign(n + 1, 0.0);
        left_pull.assign(n + 1, 0.0);
        right_pull.assign(n + 1, 0.0);
        for (Index k = 0; k <= n; ++k)
            for (int f = 0; f < of_boundary; ++f)
                left[k] += weights[features.left(k)[f]], right[k] += weights[features.right(k)[f]];
        for (Index j = 2; j <= n; ++j)
            for (Index i = 0; i < j - 1; ++i) {
                if (CellFeatures::fixed(i, j, n)) continue;
                features.cell(i, j, slots);
                double score = left[i] + right[j];
                for (const uint32_t slot : slots) score += weights[slot];
                const bool is_open = open[cell_offsets[s] + cell_of(i, j)];
                const double wrong = is_open ? -score : score, part = std::exp(-std::abs(wrong));
                loss += std::max(wrong, 0.0) + std::log1p(part);
                const double pull = (wrong > 0 ? 1 : part) / (1 + part) * (is_open ? -1 : 1);
                for (const uint32_t slot : slots) gradient[slot] += pull;
                left_pull[i] += pull;
                right_pull[j] += pull;
            }
        for (Index k = 0; k <= n; ++k)
            for (int f = 0; f < of_boundary; ++f)
                gradient[features.left(k)[f]] += left_pull[k], gradient[features.right(k)[f]] += right_pull[k];
    }
    return loss;
}

// The scores of all cells (cells); those of words and whole sentences are no numbers.
Array<float> cell_pruner_scores(Vector<const float> weights, int bits, Vector<const int64_t> offsets,
                                Vector<const int64_t> cell_offsets, Vector<const int32_t> tags, Vector<const int32_t> kinds) {
    const Sentences sentences{offsets, cell_offsets, tags, kinds};
    Array<float> scores(cell_offsets[sentences.count()]);
    for (Index cell = 0; cell < cell_offsets[sentences.count()]; ++cell) scores.data[cell] = std::nanf("");
    for (Index s = 0; s < sentences.count(); ++s)
        score_cells(weights.data, sentences.features(s, bits), sentences.length(s), scores.data.get() + cell_offsets[s]);
    return scores;
}

}  // namespace

void bind_cell_pruner(nb::module_ &module) {
    module.def("cell_pruner_loss", &cell_pruner_loss, "weights"_a, "bits"_a, "offsets"_a, "cell_offsets"_a, "tags"_a, "kinds"_a,
               "open"_a, "gradient"_a, unlocked());
    module.def("cell_pruner_scores", &cell_pruner_scores, "weights"_a, "bits"_a, "offsets"_a, "cell_offsets"_a, "tags"_a,
               "kinds"_a, unlocked());
}

}  // namespace sapwood
