// Inference of the span scorer (`sapwood.model.span_scorer`): one pass over a sentence.
#include "span_scorer/forward.hpp"

#include <algorithm>
#include <vector>

#include "core/copies.hpp"
#include "core/module.hpp"
#include "span_scorer/binary_trees.hpp"
#include "span_scorer/span_scorer.hpp"

namespace sapwood {
namespace {

void layer_norm(float *values, Index rows, Index size, const float *gain, const float *shift, bool relu) {
    for (Index i = 0; i < rows; ++i) {
        float *row = values + i * size;
        standardise(row, size);
        for (Index x = 0; x < size; ++x) row[x] = row[x] * gain[x] + shift[x];
        if (relu)
            for (Index x = 0; x < size; ++x) row[x] = std::max(row[x], 0.0f);
    }
}

// The logarithm of the sum of exponentials.
float log_sum(const float *row, Index size) {
    float largest = row[0], total = 0;
#pragma omp simd reduction(max : largest)
    for (Index x = 0; x < size; ++x) largest = std::max(largest, row[x]);
#pragma omp simd reduction(+ : total)
    for (Index x = 0; x < size; ++x) total += quick_exp(row[x] - largest);
    return largest + std::log(total);
}

// `shift + vectors (rows, depth) weights (depth, columns)`, the same bytes on any number of threads.
Array<float, 2> affine_map(Matrix<const float> vectors, Matrix<const float> weights, Vector<const float> shift) {
    check_shape("weights", weights, vectors.shape[1], shift.size());
    Array<float, 2> out(vectors.shape[0], shift.size());
    Panels(weights.data, vectors.shape[1], shift.size()).multiply(vectors.data, vectors.shape[0], shift.data, out.data.get());
    return out;
}

// Scores of labels over all cells, and logarithms of the tags' probabilities (n, tags).
std::pair<Array<float, 2>, Array<float, 2>> scores_of(const SpanScorer &scorer, Matrix<const int32_t> features,
                                                      Matrix<const float> vectors) {
    SpanScorerMemory memory;
    scorer.score(features, vectors, memory);
    const Index n = features.shape[0] - 2;
    Array<float, 2> spans(n * (n + 1) / 2, scorer.labels), tags(n, scorer.tags);
    std::copy_n(memory.spans.data(), spans.view().size(), spans.data.get());
    std::copy_n(memory.tags.data(), tags.view().size(), tags.data.get());
    return {std::move(spans), std::move(tags)};
}

Array<int32_t> prune_cells(Matrix<const float> scores, Index n, double threshold) {
    SpanScorerMemory memory;
    check_shape("scores", scores, n * (n + 1) / 2, any_size);
    prune_spans(scores, n, threshold, memory);
    return array_of(memory.cells.data(), scores.shape[0]);
}

}  // namespace

SpanScorer::SpanScorer(Matrix<const float> embeddings, Vector<const float> weights, Index hidden, Index layers,
                       Index span_hidden, Index labels, Index tags, Index encoder)
    : input(embeddings.shape[1]), hidden(hidden), layers(layers), span_hidden(span_hidden), labels(labels), tags(tags),
      encoder(encoder), embeddings(embeddings) {
    const Index size = 2 * hidden;
    Index taken = 0;
    const auto take = [&](Index count) {
        taken += count;
        check_range(0, taken, weights.size());
        return weights.data + taken - count;
    };
    const auto vector = [&](Index count) {
        const float *first = take(count);
        return std::vector<float>(first, first + count);
    };
    const auto matrix = [&](Index depth, Index columns) { return Panels(take(depth * columns), depth, columns); };
    if (encoder) encoder_weights = matrix(encoder, input);
    gain = vector(input), shift = vector(input);
    layer.resize(layers);
    for (Index x = 0; x < layers; ++x) {
        const Index from = x ? size : input;
        layer[x].gates = matrix(from, 3 * size);
        layer[x].bias = vector(2 * size);
        layer[x].gain = vector(size), layer[x].shift = vector(size);
        if (from != size) layer[x].skip = matrix(from, size);
    }
    tag_weights = matrix(size, tags), tag_bias = vector(tags);
    left_weights = matrix(size, span_hidden), right_weights = matrix(size, span_hidden), ends_bias = vector(span_hidden);
    span_gain = vector(span_hidden), span_shift = vector(span_hidden);
    label_weights = matrix(span_hidden, labels), label_bias = vector(labels);
    check_shape("weights", weights, taken);
}

void SpanScorer::score(Matrix<const int32_t> features, Matrix<const float> vectors, SpanScorerMemory &m) const {
    const Index n = features.shape[0] - 2, steps = n + 2, size = 2 * hidden;
    if (encoder) check_shape("vectors", vectors, n, encoder);
    float *x = m.x.acquire(steps * std::max(input, size));
    std::fill_n(x, steps * input, 0.0f);
    for (Index t = 0; t < steps; ++t)
        for (Index k = 0; k < features.shape[1]; ++k) {
            const float *row = embeddings.row(features(t, k));
            for (Index c = 0; c < input; ++c) x[t * input + c] += row[c];
        }
    if (encoder) {
        float *mapped = m.gates.acquire(n * input);
        encoder_weights.multiply(vectors.data, n, nullptr, mapped);
        for (Index k = 0; k < n * input; ++k) x[input + k] += mapped[k];
    }
    layer_norm(x, steps, input, gain.data(), shift.data(), false);
    float *gates = m.gates.acquire(steps * 3 * size), *skip = m.skip.acquire(steps * size),
          *cell = m.cell.acquire(steps * size), *activation = m.activation.acquire(steps * size),
          *first_layer = m.first_layer.acquire(steps * size);
    for (Index number = 0; number < layers; ++number) {
        const Layer &l = layer[number];
        l.gates.multiply(x, steps, nullptr, gates);
        if ((number ? size : input) != size) l.skip.multiply(x, steps, nullptr, skip);
        else std::copy_n(x, steps * size, skip);
        for (int side = 0; side < 2; ++side) {
            const Index at = side * hidden;
            run_sru({steps, hidden, size, 3 * size, size, side ? -1 : 1}, gates + at, l.bias.data() + at, skip + at, cell + at,
                    activation + at, x + at);
        }
        layer_norm(x, steps, size, l.gain.data(), l.shift.data(), false);
        if (number == 0) std::copy_n(x, steps * size, first_layer);
    }
    float *tag_scores = m.tags.acquire(n * tags), *span_scores = m.spans.acquire(n * (n + 1) / 2 * labels);
    tag_weights.multiply(first_layer + size, n, tag_bias.data(), tag_scores);
    for (Index i = 0; i < n; ++i) {
        float *row = tag_scores + i * tags;
        const float log_total = log_sum(row, tags);
        for (Index c = 0; c < tags; ++c) row[c] -= log_total;
        std::fill_n(span_scores + cell_of(i, i + 1) * labels, labels, 0.0f);
    }
    // Between words: what came from the left, and what came from the right.
    float *gaps = m.gaps.acquire((n + 1) * size), *left = m.left.acquire((n + 1) * span_hidden),
          *right = m.right.acquire((n + 1) * span_hidden), *spans = m.span.acquire(n * span_hidden);
    for (Index k = 0; k <= n; ++k) {
        std::copy_n(x + k * size, hidden, gaps + k * size);
        std::copy_n(x + (k + 1) * size + hidden, hidden, gaps + k * size + hidden);
    }
    left_weights.multiply(gaps, n + 1, nullptr, left);
    right_weights.multiply(gaps, n + 1, ends_bias.data(), right);
    for (Index j = 2; j <= n; ++j) {
        for (Index i = 0; i + 1 < j; ++i)
            for (Index c = 0; c < span_hidden; ++c)
                spans[i * span_hidden + c] = left[i * span_hidden + c] + right[j * span_hidden + c];
        layer_norm(spans, j - 1, span_hidden, span_gain.data(), span_shift.data(), true);
        label_weights.multiply(spans, j - 1, label_bias.data(), span_scores + cell_of(0, j) * labels);
    }
}

void prune_spans(Matrix<const float> scores, Index n, double threshold, SpanScorerMemory &memory) {
    const Index cells = scores.shape[0];
    double *sums = memory.sums.acquire(cells), *marginal = memory.marginal.acquire(cells);
    int32_t *found = memory.cells.acquire(cells);
    std::fill_n(found, cells, static_cast<int32_t>(free_cell));
    if (scores.shape[1] == 0) return;
    for (Index cell = 0; cell < cells; ++cell) sums[cell] = log_sum(scores.row(cell), scores.shape[1]);
    std::fill_n(marginal, cells, 1.0);
    BinaryTrees(n, cell_of).sum(sums, marginal);
    for (Index cell = 0; cell < cells; ++cell)
        if (marginal[cell] < threshold) found[cell] = forbidden_cell;
}

void bind_span_scorer(nb::module_ &module) {
    nb::class_<SpanScorer>(module, "SpanScorer")
        .def(nb::init<Matrix<const float>, Vector<const float>, Index, Index, Index, Index, Index, Index>(), "embeddings"_a,
             "weights"_a, "hidden"_a, "layers"_a, "span_hidden"_a, "labels"_a, "tags"_a, "encoder"_a, nb::keep_alive<1, 2>())
        .def("scores", &scores_of, "features"_a, "vectors"_a, unlocked());
    module.def("affine_map", &affine_map, "vectors"_a, "weights"_a, "shift"_a, unlocked());
    module.def("prune_cells", &prune_cells, "scores"_a, "n"_a, "threshold"_a, unlocked());
}

}  // namespace sapwood
