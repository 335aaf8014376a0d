// Inference of the span scorer (`sapwood.model.span_scorer`): one pass over a sentence.
#include "span_scorer/forward.hpp"

#include "span_scorer/binary_trees.hpp"

#include <algorithm>
#include <vector>

#include "core/module.hpp"

namespace sapwood {
namespace {

// `out (rows, columns) = bias + x (rows, depth) w (depth, columns)`, six rows by sixteen columns at a time.
template <int rows> void multiply_tile(const float *x, Index depth, const float *w, Index columns, const float *bias,
                                       Index first, Index width, float *out) {
    constexpr Index lanes = 16;
    float sums[rows][lanes] = {};
    if (width == lanes) {
        for (Index k = 0; k < depth; ++k) {
            const float *row = w + k * columns + first;
            for (int r = 0; r < rows; ++r) {
                const float value = x[r * depth + k];
#pragma omp simd
                for (Index c = 0; c < lanes; ++c) sums[r][c] += value * row[c];
            }
        }
    } else {
        for (Index k = 0; k < depth; ++k)
            for (int r = 0; r < rows; ++r)
                for (Index c = 0; c < width; ++c) sums[r][c] += x[r * depth + k] * w[k * columns + first + c];
    }
    for (int r = 0; r < rows; ++r)
        for (Index c = 0; c < width; ++c) out[r * columns + first + c] = sums[r][c] + (bias ? bias[first + c] : 0.0f);
}

constexpr decltype(&multiply_tile<1>) tiles[] = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
                                                 multiply_tile<4>, multiply_tile<5>, multiply_tile<6>};

void multiply(const float *x, Index rows, Index depth, const float *w, Index columns, const float *bias, float *out) {
    for (Index first = 0; first < columns; first += 16) {
        const Index width = std::min<Index>(16, columns - first);
        for (Index r = 0; r < rows; r += 6) {
            const auto tile = tiles[std::min<Index>(rows - r, 6) - 1];
            tile(x + r * depth, depth, w, columns, bias, first, width, out + r * columns);
        }
    }
}

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
    multiply(vectors.data, vectors.shape[0], vectors.shape[1], weights.data, shift.size(), shift.data, out.data.get());
    return out;
}

// Scores of labels over all cells of two words or more (cells, labels), and logarithms of the tags' probabilities (n, tags).
// `weights` has what `sapwood.model.span_scorer.Dims.weights` says, one after the other. `vectors` (n, encoder) are those of a
// pretrained encoder, or (0, 0).
std::pair<Array<float, 2>, Array<float, 2>> span_scorer_scores(Matrix<const float> embeddings, Vector<const float> weights,
                                                               Matrix<const int32_t> features, Index hidden, Index layers,
                                                               Index span_hidden, Index labels, Index tags,
                                                               Matrix<const float> vectors) {
    const Index n = features.shape[0] - 2, steps = n + 2, input = embeddings.shape[1], size = 2 * hidden;
    const Index encoder = vectors.shape[1];
    if (encoder) check_shape("vectors", vectors, n, encoder);
    const float *next = weights.data;
    const auto take = [&](Index count) {
        const float *found = next;
        next += count;
        return found;
    };
    std::vector<float> x(steps * std::max(input, size), 0.0f);
    for (Index t = 0; t < steps; ++t)
        for (Index k = 0; k < features.shape[1]; ++k) {
            const float *row = embeddings.row(features(t, k));
            for (Index c = 0; c < input; ++c) x[t * input + c] += row[c];
        }
    if (encoder) {
        std::vector<float> mapped(n * input);
        multiply(vectors.data, n, encoder, take(encoder * input), input, nullptr, mapped.data());
        for (Index k = 0; k < n * input; ++k) x[input + k] += mapped[k];
    }
    const float *gain = take(input), *shift = take(input);
    layer_norm(x.data(), steps, input, gain, shift, false);
    std::vector<float> gates(steps * 3 * size), skip(steps * size), cell(steps * size), activation(steps * size), first_layer;
    for (Index layer = 0; layer < layers; ++layer) {
        const Index from = layer ? size : input;
        multiply(x.data(), steps, from, take(from * 3 * size), 3 * size, nullptr, gates.data());
        const float *bias = take(2 * size);
        gain = take(size);
        shift = take(size);
        if (from != size) multiply(x.data(), steps, from, take(from * size), size, nullptr, skip.data());
        else std::copy_n(x.data(), steps * size, skip.data());
        x.resize(steps * size);
        for (int side = 0; side < 2; ++side) {
            const Index at = side * hidden;
            run_sru({steps, hidden, size, 3 * size, size, side ? -1 : 1}, gates.data() + at, bias + at, skip.data() + at,
                    cell.data() + at, activation.data() + at, x.data() + at);
        }
        layer_norm(x.data(), steps, size, gain, shift, false);
        if (layer == 0) first_layer.assign(x.begin(), x.begin() + steps * size);
    }
    const float *tag_weights = take(size * tags), *tag_bias = take(tags);
    Array<float, 2> tag_scores(n, tags), span_scores(n * (n + 1) / 2, labels);
    multiply(first_layer.data() + size, n, size, tag_weights, tags, tag_bias, tag_scores.data.get());
    for (Index i = 0; i < n; ++i) {
        float *row = tag_scores.data.get() + i * tags;
        const float log_total = log_sum(row, tags);
        for (Index c = 0; c < tags; ++c) row[c] -= log_total;
        std::fill_n(span_scores.data.get() + cell_of(i, i + 1) * labels, labels, 0.0f);
    }
    // Between words: what came from the left, and what came from the right.
    std::vector<float> gaps((n + 1) * size), left((n + 1) * span_hidden), right((n + 1) * span_hidden);
    for (Index k = 0; k <= n; ++k) {
        std::copy_n(x.data() + k * size, hidden, gaps.data() + k * size);
        std::copy_n(x.data() + (k + 1) * size + hidden, hidden, gaps.data() + k * size + hidden);
    }
    const float *left_weights = take(size * span_hidden), *right_weights = take(size * span_hidden),
                *ends_bias = take(span_hidden);
    multiply(gaps.data(), n + 1, size, left_weights, span_hidden, nullptr, left.data());
    multiply(gaps.data(), n + 1, size, right_weights, span_hidden, ends_bias, right.data());
    gain = take(span_hidden);
    shift = take(span_hidden);
    const float *label_weights = take(span_hidden * labels), *label_bias = take(labels);
    std::vector<float> spans(n * span_hidden);
    for (Index j = 2; j <= n; ++j) {
        for (Index i = 0; i + 1 < j; ++i)
            for (Index c = 0; c < span_hidden; ++c)
                spans[i * span_hidden + c] = left[i * span_hidden + c] + right[j * span_hidden + c];
        layer_norm(spans.data(), j - 1, span_hidden, gain, shift, true);
        multiply(spans.data(), j - 1, span_hidden, label_weights, labels, label_bias,
                 span_scores.data.get() + cell_of(0, j) * labels);
    }
    return {std::move(span_scores), std::move(tag_scores)};
}

// What the scores of labels over cells (cells, labels) make of the spans of n words: forbidden where fewer than `threshold`
// of all binary trees, weighted by their scores, have a node, else free.
Array<int32_t> prune_cells(Matrix<const float> scores, Index n, double threshold) {
    const Index cells = n * (n + 1) / 2;
    std::vector<double> sums(cells), marginal(cells, 1.0);
    for (Index cell = 0; cell < cells; ++cell) sums[cell] = log_sum(scores.row(cell), scores.shape[1]);
    BinaryTrees(n, cell_of).sum(sums.data(), marginal.data());
    Array<int32_t> result(cells);
    for (Index cell = 0; cell < cells; ++cell) result[cell] = marginal[cell] < threshold ? forbidden_cell : free_cell;
    return result;
}

}  // namespace

void bind_span_scorer(nb::module_ &module) {
    module.def("span_scorer_scores", &span_scorer_scores, "embeddings"_a, "weights"_a, "features"_a, "hidden"_a, "layers"_a,
               "span_hidden"_a, "labels"_a, "tags"_a, "vectors"_a, unlocked());
    module.def("affine_map", &affine_map, "vectors"_a, "weights"_a, "shift"_a, unlocked());
    module.def("prune_cells", &prune_cells, "scores"_a, "n"_a, "threshold"_a, unlocked());
}

}  // namespace sapwood
