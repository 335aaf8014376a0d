// EM for one rule (equation 1 of pivot learning): the states of a rule's node and of its two children, from what features say.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/module.hpp"
#include "core/simd.hpp"
#include "core/views.hpp"

namespace sapwood {
namespace {

// Return `sum w log z` over triples, `z = sum t(h1,h2,h3) outside(h1) left(h2) right(h3)`; fill in its gradient.
//
// `outside`, `left`, `right` are (n, m_a), (n, m_b), (n, m_c), `weights` (n); `tensor` and `gradient` are (m_a, m_b m_c).
// So many triples as `chunk` says are handled at a time.
template <class T>
double rule_pass(Matrix<const T> outside, Matrix<const T> left, Matrix<const T> right, Vector<const T> weights,
                 Matrix<const T> tensor, Index chunk, Matrix<T> gradient) {
    const Index n = outside.shape[0], m_a = outside.shape[1], m_b = left.shape[1], m_c = right.shape[1];
    const Index size = m_b * m_c, most = std::min(chunk, n);
    check_shape("left", left, n, m_b);
    check_shape("right", right, n, m_c);
    check_shape("weights", weights, n);
    check_shape("tensor", tensor, m_a, size);
    check_shape("gradient", gradient, m_a, size);
    std::vector<T> pairs(most * size), mixed(most * size), shares(most * m_a);
    std::fill_n(gradient.data, gradient.size(), T(0));
    double value = 0;
    for (Index begin = 0; begin < n; begin += chunk) {
        const Index count = std::min(chunk, n - begin);
        std::fill_n(mixed.data(), count * size, T(0));
        gemm(outside.row(begin), m_a, 1, tensor.data, mixed.data(), count, m_a, size);
        for (Index r = 0; r < count; ++r) {
            T *pair = pairs.data() + r * size;
            outer(left.row(begin + r), m_b, right.row(begin + r), m_c, pair);
            const double z = std::max<double>(dot(mixed.data() + r * size, pair, size), 1e-300);
            const double weight = weights[begin + r];
            value += weight * std::log(z);
            for (Index i = 0; i < m_a; ++i) shares[r * m_a + i] = static_cast<T>(weight / z * outside(begin + r, i));
        }
        gemm(shares.data(), 1, m_a, pairs.data(), gradient.data, m_a, count, size);
    }
    return value;
}

// Maximise equation 1, with `strength` pseudo-counts distributed like `start`, from `tensor`; arrays as in `rule_pass`.
//
// EM multiplies each weight by `gain = (gradient + strength start / weight) / (total + strength)`, whose mean is 1. The
// objective is concave, so it lies at most `largest gain - 1`, for each count, below its maximum: EM ends when that is
// at most `tolerance`, or after so many `iterations`. Steps are lengthened to powers of `gain` as long as the objective
// grows (as in `sapwood.numerics.simplex`). Returns how many passes there were, and that bound at the end.
template <class T>
std::pair<Index, double> rule_em(Matrix<const T> outside, Matrix<const T> left, Matrix<const T> right, Vector<const T> weights,
                                 Matrix<const T> start, double strength, Index chunk, Index iterations, double tolerance,
                                 Matrix<T> tensor) {
    const Index size = tensor.size();
    check_shape("start", start, tensor.shape[0], tensor.shape[1]);
    std::vector<T> room(size), kept(size);
    std::vector<double> gain(size);
    const Matrix<T> gradient{room.data(), {tensor.shape[0], tensor.shape[1]}};
    double total = strength;
    for (Index r = 0; r < weights.size(); ++r) total += weights[r];
    double last = -INFINITY, power = 1, bound = INFINITY;
    for (Index iteration = 0;; ++iteration) {
        double value = rule_pass<T>(outside, left, right, weights, tensor, chunk, gradient);
        for (Index i = 0; i < size && strength > 0; ++i) {
            if (start.data[i] > 0) value += strength * start.data[i] * std::log(std::max<double>(tensor.data[i], 1e-300));
        }
        const bool fell = power > 1 && !(value >= last);
        if (fell) {  // the step was too long: plain EM from where it began (whose gain is still there)
            power = 1;
            std::copy_n(kept.data(), size, tensor.data);
        } else {
            last = value;
            double largest = 0;
            for (Index i = 0; i < size; ++i) {
                const double weight = tensor.data[i];
                const double prior = strength > 0 && weight > 0 ? strength * start.data[i] / weight : 0;
                gain[i] = weight > 0 ? (gradient.data[i] + prior) / total : 0;
                largest = std::max(largest, gain[i]);
            }
            bound = largest - 1;
            if (bound * total <= tolerance || iteration >= iterations) return {iteration, bound * total};
            std::copy_n(tensor.data, size, kept.data());
        }
        const auto step = [&] {
            double sum = 0;
            for (Index i = 0; i < size; ++i) {
                tensor.data[i] = static_cast<T>(kept[i] * (power > 1 ? std::pow(gain[i], power) : gain[i]));
                sum += tensor.data[i];
            }
            return sum;
        };
        double sum = step();
        if (power > 1 && !(std::isfinite(sum) && sum > 0)) {
            power = 1;
            sum = step();
        }
        for (Index i = 0; i < size; ++i) tensor.data[i] = static_cast<T>(tensor.data[i] / sum);
        if (!fell) power = std::min(power * 1.5, 1e3);
    }
}

}  // namespace

void bind_rule_em(nb::module_ &module) {
    module.def("rule_pass", &rule_pass<float>, "outside"_a, "left"_a, "right"_a, "weights"_a, "tensor"_a, "chunk"_a,
               "gradient"_a, unlocked());
    module.def("rule_pass", &rule_pass<double>, "outside"_a, "left"_a, "right"_a, "weights"_a, "tensor"_a, "chunk"_a,
               "gradient"_a, unlocked());
    module.def("rule_em", &rule_em<float>, "outside"_a, "left"_a, "right"_a, "weights"_a, "start"_a, "strength"_a, "chunk"_a,
               "iterations"_a, "tolerance"_a, "tensor"_a, unlocked());
    module.def("rule_em", &rule_em<double>, "outside"_a, "left"_a, "right"_a, "weights"_a, "start"_a, "strength"_a, "chunk"_a,
               "iterations"_a, "tolerance"_a, "tensor"_a, unlocked());
}

}  // namespace sapwood
