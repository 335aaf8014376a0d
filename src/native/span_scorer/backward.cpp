// Training of the span scorer: forward and backward passes of everything but matrix products.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/module.hpp"
#include "span_scorer/binary_trees.hpp"
#include "span_scorer/forward.hpp"

namespace sapwood {
namespace {

// Runs over (steps, sentences, 3 layers) gates: the first half of a layer goes forward, the second back.
template <class Run> void for_each_run(Cube<float> gates, Run run) {
    const Index steps = gates.shape[0], sentences = gates.shape[1], layer = gates.shape[2] / 3, hidden = layer / 2;
    for (Index b = 0; b < sentences; ++b)
        for (int side = 0; side < 2; ++side)
            run(SRURun{steps, hidden, layer, sentences * 3 * layer, sentences * layer, side ? -1 : 1},
                b * 3 * layer + side * hidden, b * layer + side * hidden, side * hidden);
}

void sru_forward(Cube<float> gates, Vector<const float> bias, Cube<const float> skip, Cube<float> cell, Cube<float> activation,
                 Cube<float> out) {
    for_each_run(gates, [&](const SRURun &run, Index gate, Index at, Index place) {
        run_sru(run, gates.data + gate, bias.data + place, skip.data + at, cell.data + at, activation.data + at, out.data + at);
    });
}

// `gates` become the derivatives by what they were before, `skip_gradient` is filled.
void sru_backward(Cube<float> gates, Cube<const float> skip, Cube<const float> cell, Cube<const float> activation,
                  Cube<const float> gradient, Cube<float> skip_gradient) {
    std::vector<float> carry(gates.shape[2] / 6);
    for_each_run(gates, [&](const SRURun &run, Index gate, Index start, Index) {
        std::fill(carry.begin(), carry.end(), 0.0f);
        float *carried = carry.data();
        const Index last = run.direction > 0 ? run.steps - 1 : 0;
        for (Index s = 0, t = last; s < run.steps; ++s, t -= run.direction) {
            float *candidate = gates.data + gate + t * run.step, *forget = candidate + run.layer, *reset = forget + run.layer;
            const Index at = start + t * run.out_step;
            const bool has_before = s + 1 < run.steps;
            const float *before = cell.data + (has_before ? at - run.direction * run.out_step : at);
            const float weight = has_before ? 1.0f : 0.0f;
#pragma omp simd
            for (Index x = 0; x < run.width; ++x) {
                const float up = gradient.data[at + x], seen = activation.data[at + x], passed = skip.data[at + x];
                const float k = forget[x], r = reset[x];
                skip_gradient.data[at + x] = up * (1.0f - r);
                const float by_cell = up * r * (1.0f - seen * seen) + carried[x];
                reset[x] = up * (seen - passed) * r * (1.0f - r);
                forget[x] = by_cell * (weight * before[x] - candidate[x]) * k * (1.0f - k);
                candidate[x] = by_cell * (1.0f - k);
                carried[x] = by_cell * k;
            }
        }
    });
}

// Standardise the rows of `values` in place; `out` is that times `gain` plus `shift`, only what is positive if `relu`.
void layer_norm_forward(Matrix<float> values, Vector<const float> gain, Vector<const float> shift, bool relu,
                        Vector<float> scale, Matrix<float> out) {
    const Index size = values.shape[1];
    for (Index i = 0; i < values.shape[0]; ++i) {
        float *row = values.row(i), *target = out.row(i);
        scale[i] = standardise(row, size);
        if (relu) {
#pragma omp simd
            for (Index x = 0; x < size; ++x) target[x] = std::max(row[x] * gain.data[x] + shift.data[x], 0.0f);
        } else {
#pragma omp simd
            for (Index x = 0; x < size; ++x) target[x] = row[x] * gain.data[x] + shift.data[x];
        }
    }
}

// `gradient` by the output becomes the one by the input; those by gain and shift are added to. `out` is 0 where `relu` cut it
// off.
void layer_norm_backward(Matrix<const float> values, Vector<const float> gain, bool relu, Vector<const float> scale,
                         Matrix<const float> out, Matrix<float> gradient, Vector<float> gain_gradient,
                         Vector<float> shift_gradient) {
    const Index size = values.shape[1];
    for (Index i = 0; i < values.shape[0]; ++i) {
        const float *row = values.row(i), *result = out.row(i);
        float *change = gradient.row(i);
        float mean = 0, along = 0;
        if (relu)
            for (Index x = 0; x < size; ++x) change[x] = result[x] > 0 ? change[x] : 0.0f;
#pragma omp simd reduction(+ : mean, along)
        for (Index x = 0; x < size; ++x) {
            gain_gradient.data[x] += change[x] * row[x];
            shift_gradient.data[x] += change[x];
            change[x] *= gain.data[x];
            mean += change[x];
            along += change[x] * row[x];
        }
        mean /= static_cast<float>(size);
        along /= static_cast<float>(size);
#pragma omp simd
        for (Index x = 0; x < size; ++x) change[x] = scale.data[i] * (change[x] - mean - row[x] * along);
    }
}

// `out[s] = left[starts[s]] + right[ends[s]]`.
void span_sum(Matrix<const float> left, Matrix<const float> right, Vector<const int32_t> starts, Vector<const int32_t> ends,
              Matrix<float> out) {
    const Index size = left.shape[1];
    for (Index s = 0; s < out.shape[0]; ++s) {
        const float *a = left.row(starts[s]), *b = right.row(ends[s]);
        float *target = out.row(s);
#pragma omp simd
        for (Index x = 0; x < size; ++x) target[x] = a[x] + b[x];
    }
}

void span_sum_backward(Matrix<const float> gradient, Vector<const int32_t> starts, Vector<const int32_t> ends,
                       Matrix<float> left, Matrix<float> right) {
    const Index size = left.shape[1];
    for (Index s = 0; s < gradient.shape[0]; ++s) {
        const float *change = gradient.row(s);
        float *a = left.row(starts[s]), *b = right.row(ends[s]);
#pragma omp simd
        for (Index x = 0; x < size; ++x) a[x] += change[x];
#pragma omp simd
        for (Index x = 0; x < size; ++x) b[x] += change[x];
    }
}

// `out[i]` is the sum of the rows `places[i]` of `embeddings`.
void embedding_bag(Matrix<const float> embeddings, Matrix<const int32_t> places, Matrix<float> out) {
    const Index size = embeddings.shape[1];
    std::fill_n(out.data, out.size(), 0.0f);
    for (Index i = 0; i < places.shape[0]; ++i)
        for (Index k = 0; k < places.shape[1]; ++k) {
            const float *row = embeddings.row(places(i, k));
            float *target = out.row(i);
#pragma omp simd
            for (Index x = 0; x < size; ++x) target[x] += row[x];
        }
}

void embedding_bag_backward(Matrix<const float> gradient, Matrix<const int32_t> places, Matrix<float> embeddings) {
    const Index size = embeddings.shape[1];
    for (Index i = 0; i < places.shape[0]; ++i)
        for (Index k = 0; k < places.shape[1]; ++k) {
            const float *change = gradient.row(i);
            float *target = embeddings.row(places(i, k));
#pragma omp simd
            for (Index x = 0; x < size; ++x) target[x] += change[x];
        }
}

// Turn a row of scores into probabilities; returns the logarithm of the sum of their exponentials.
float to_probabilities(float *row, Index size) {
    float largest = row[0], total = 0;
#pragma omp simd reduction(max : largest)
    for (Index x = 0; x < size; ++x) largest = std::max(largest, row[x]);
#pragma omp simd reduction(+ : total)
    for (Index x = 0; x < size; ++x) {
        row[x] = quick_exp(row[x] - largest);
        total += row[x];
    }
    const float share = 1.0f / total;
#pragma omp simd
    for (Index x = 0; x < size; ++x) row[x] *= share;
    return largest + std::log(total);
}

// The sum over rows of `-log p(right)`; `scores` become its derivatives. Rows without a right class (-1) do not count.
double cross_entropy(Matrix<float> scores, Vector<const int32_t> right) {
    double loss = 0;
    for (Index i = 0; i < scores.shape[0]; ++i) {
        float *row = scores.row(i);
        if (right[i] < 0) {
            std::fill_n(row, scores.shape[1], 0.0f);
            continue;
        }
        const float score = row[right[i]];
        loss += to_probabilities(row, scores.shape[1]) - score;
        row[right[i]] -= 1.0f;
    }
    return loss;
}

// The sum over sentences of n words of `-log p(right tree)`, where a tree's score is the sum of those of its spans' labels;
// `scores` (sentences * spans, labels) become its derivatives. `right` has the label of each span of the right tree, else -1;
// `mass` is filled with the probabilities of the spans.
double tree_crf_loss(Matrix<float> scores, Vector<const int32_t> right, Index n, Vector<float> mass) {
    const Index spans = n * (n - 1) / 2, labels = scores.shape[1];
    BinaryTrees trees(n, [n](Index i, Index j) { return i * (n - 1) - i * (i - 1) / 2 + j - i - 2; });
    std::vector<double> sums(spans), marginal(spans);
    double loss = 0;
    for (Index first = 0; first < scores.shape[0]; first += spans) {
        for (Index s = 0; s < spans; ++s) {
            float *row = scores.row(first + s);
            if (right[first + s] >= 0) loss -= row[right[first + s]];
            sums[s] = to_probabilities(row, labels);
        }
        loss += trees.sum(sums.data(), marginal.data());
        for (Index s = 0; s < spans; ++s) {
            float *row = scores.row(first + s);
            const float share = mass[first + s] = static_cast<float>(marginal[s]);
#pragma omp simd
            for (Index x = 0; x < labels; ++x) row[x] *= share;
            if (right[first + s] >= 0) row[right[first + s]] -= 1.0f;
        }
    }
    return loss;
}

// A step of Adam (Kingma and Ba 2015) against `factor` times the gradient, which is then zero. `first` and `second` are
// 1 / (1 - beta ** step) for both moments.
void adam_step(Vector<float> weights, Vector<float> gradient, Vector<float> mean, Vector<float> square, float factor,
               float rate, float first, float second) {
    check_shape("gradient", gradient, weights.size());
    check_shape("mean", mean, weights.size());
    check_shape("square", square, weights.size());
    const float beta = 0.9f, gamma = 0.98f;
    float *w = weights.data, *change = gradient.data, *m = mean.data, *v = square.data;
#pragma omp simd
    for (Index x = 0; x < weights.size(); ++x) {
        const float g = change[x] * factor;
        m[x] = beta * m[x] + (1 - beta) * g;
        v[x] = gamma * v[x] + (1 - gamma) * g * g;
        w[x] -= rate * m[x] * first / (std::sqrt(v[x] * second) + 1e-8f);
        change[x] = 0;
    }
}

}  // namespace

void bind_span_scorer_training(nb::module_ &module) {
    module.def("sru_forward", &sru_forward, "gates"_a, "bias"_a, "skip"_a, "cell"_a, "activation"_a, "out"_a, unlocked());
    module.def("sru_backward", &sru_backward, "gates"_a, "skip"_a, "cell"_a, "activation"_a, "gradient"_a, "skip_gradient"_a,
               unlocked());
    module.def("layer_norm_forward", &layer_norm_forward, "values"_a, "gain"_a, "shift"_a, "relu"_a, "scale"_a, "out"_a,
               unlocked());
    module.def("layer_norm_backward", &layer_norm_backward, "values"_a, "gain"_a, "relu"_a, "scale"_a, "out"_a, "gradient"_a,
               "gain_gradient"_a, "shift_gradient"_a, unlocked());
    module.def("span_sum", &span_sum, "left"_a, "right"_a, "starts"_a, "ends"_a, "out"_a, unlocked());
    module.def("span_sum_backward", &span_sum_backward, "gradient"_a, "starts"_a, "ends"_a, "left"_a, "right"_a, unlocked());
    module.def("embedding_bag", &embedding_bag, "embeddings"_a, "places"_a, "out"_a, unlocked());
    module.def("embedding_bag_backward", &embedding_bag_backward, "gradient"_a, "places"_a, "embeddings"_a, unlocked());
    module.def("cross_entropy", &cross_entropy, "scores"_a, "right"_a, unlocked());
    module.def("tree_crf_loss", &tree_crf_loss, "scores"_a, "right"_a, "n"_a, "mass"_a, unlocked());
    module.def("adam_step", &adam_step, "weights"_a, "gradient"_a, "mean"_a, "square"_a, "factor"_a, "rate"_a, "first"_a,
               "second"_a, unlocked());
}

}  // namespace sapwood
