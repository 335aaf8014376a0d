// Scores of spans by a network (`sapwood.grammar.network`): one pass over a sentence.
#include "grammar/network.hpp"

#include "grammar/binary_trees.hpp"

#include <algorithm>
#include <vector>

#include "module.hpp"

namespace sapwood {
namespace {

// `out (rows, columns) = bias + x (rows, inner) w (inner, columns)`, six rows by sixteen columns at a time.
template <int rows> void multiply_tile(const float *x, Index inner, const float *w, Index columns, const float *bias, Index first,
                                       Index width, float *out) {
    constexpr Index lanes = 16;
    float sums[rows][lanes] = {};
    if (width == lanes) {
        for (Index k = 0; k < inner; ++k) {
            const float *row = w + k * columns + first;
            for (int r = 0; r < rows; ++r) {
                const float value = x[r * inner + k];
#pragma omp simd
                for (Index c = 0; c < lanes; ++c) sums[r][c] += value * row[c];
            }
        }
    } else {
        for (Index k = 0; k < inner; ++k)
            for (int r = 0; r < rows; ++r)
                for (Index c = 0; c < width; ++c) sums[r][c] += x[r * inner + k] * w[k * columns + first + c];
    }
    for (int r = 0; r < rows; ++r)
        for (Index c = 0; c < width; ++c) out[r * columns + first + c] = sums[r][c] + (bias ? bias[first + c] : 0.0f);
}

constexpr decltype(&multiply_tile<1>) tiles[] = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
                                                  multiply_tile<4>, multiply_tile<5>, multiply_tile<6>};

void multiply(const float *x, Index rows, Index inner, const float *w, Index columns, const float *bias, float *out) {
    for (Index first = 0; first < columns; first += 16) {
        const Index width = std::min<Index>(16, columns - first);
        for (Index r = 0; r < rows; r += 6) {
            const auto tile = tiles[std::min<Index>(rows - r, 6) - 1];
            tile(x + r * inner, inner, w, columns, bias, first, width, out + r * columns);
        }
    }
}

void normalise(float *values, Index rows, Index size, const float *gain, const float *shift, bool cut) {
    for (Index i = 0; i < rows; ++i) {
        float *row = values + i * size;
        standardise(row, size);
        for (Index x = 0; x < size; ++x) row[x] = row[x] * gain[x] + shift[x];
        if (cut)
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

// Scores of labels over all cells of two words or more (cells, labels), and logarithms of the tags' probabilities (n, tags).
// `weights` has what `sapwood.grammar.network.Sizes.weights` says, one after the other.
std::pair<Array<float, 2>, Array<float, 2>> network_scores(Matrix<const float> table, Vector<const float> weights, Matrix<const int32_t> looks, Index half,
                               Index layers, Index inner, Index labels, Index tags) {
    const Index n = looks.shape[0] - 2, steps = n + 2, input = table.shape[1], size = 2 * half;
    const float *next = weights.data;
    const auto take = [&](Index count) {
        const float *found = next;
        next += count;
        return found;
    };
    std::vector<float> x(steps * std::max(input, size), 0.0f);
    for (Index t = 0; t < steps; ++t)
        for (Index k = 0; k < looks.shape[1]; ++k) {
            const float *row = table.row(looks(t, k));
            for (Index c = 0; c < input; ++c) x[t * input + c] += row[c];
        }
    const float *gain = take(input), *shift = take(input);
    normalise(x.data(), steps, input, gain, shift, false);
    std::vector<float> gates(steps * 3 * size), skip(steps * size), cell(steps * size), shown(steps * size), first_layer;
    for (Index layer = 0; layer < layers; ++layer) {
        const Index from = layer ? size : input;
        multiply(x.data(), steps, from, take(from * 3 * size), 3 * size, nullptr, gates.data());
        const float *bias = take(2 * size);
        gain = take(size), shift = take(size);
        if (from != size) multiply(x.data(), steps, from, take(from * size), size, nullptr, skip.data());
        else std::copy_n(x.data(), steps * size, skip.data());
        x.resize(steps * size);
        for (int side = 0; side < 2; ++side) {
            const Index at = side * half;
            run_gates({steps, half, size, 3 * size, size, side ? -1 : 1}, gates.data() + at, bias + at, skip.data() + at,
                      cell.data() + at, shown.data() + at, x.data() + at);
        }
        normalise(x.data(), steps, size, gain, shift, false);
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
    std::vector<float> gaps((n + 1) * size), left((n + 1) * inner), right((n + 1) * inner);
    for (Index k = 0; k <= n; ++k) {
        std::copy_n(x.data() + k * size, half, gaps.data() + k * size);
        std::copy_n(x.data() + (k + 1) * size + half, half, gaps.data() + k * size + half);
    }
    const float *left_weights = take(size * inner), *right_weights = take(size * inner), *ends_bias = take(inner);
    multiply(gaps.data(), n + 1, size, left_weights, inner, nullptr, left.data());
    multiply(gaps.data(), n + 1, size, right_weights, inner, ends_bias, right.data());
    gain = take(inner), shift = take(inner);
    const float *label_weights = take(inner * labels), *label_bias = take(labels);
    std::vector<float> spans(n * inner);
    for (Index j = 2; j <= n; ++j) {
        for (Index i = 0; i + 1 < j; ++i)
            for (Index c = 0; c < inner; ++c) spans[i * inner + c] = left[i * inner + c] + right[j * inner + c];
        normalise(spans.data(), j - 1, inner, gain, shift, true);
        multiply(spans.data(), j - 1, inner, label_weights, labels, label_bias, span_scores.data.get() + cell_of(0, j) * labels);
    }
    return {std::move(span_scores), std::move(tag_scores)};
}

// What the scores of labels over cells (cells, labels) make of the spans of n words: -2 where fewer than `threshold` of all
// binary trees, weighted by their scores, have a node, else -1.
Array<int32_t> closed_cells(Matrix<const float> scores, Index n, double threshold) {
    const Index cells = n * (n + 1) / 2;
    std::vector<double> sums(cells), marginal(cells, 1.0);
    for (Index cell = 0; cell < cells; ++cell) sums[cell] = log_sum(scores.row(cell), scores.shape[1]);
    BinaryTrees(n, cell_of).sum(sums.data(), marginal.data());
    Array<int32_t> result(cells);
    for (Index cell = 0; cell < cells; ++cell) result[cell] = marginal[cell] < threshold ? -2 : -1;
    return result;
}

}  // namespace

void bind_network(nb::module_ &module) {
    module.def("network_scores", &network_scores, unlocked());
    module.def("closed_cells", &closed_cells, unlocked());
}

}  // namespace sapwood
