// Equation 1 of pivot learning: the states of a rule's node and of its two children, from what features say.
#include <algorithm>
#include <cmath>
#include <vector>

#include "dense.hpp"
#include "learn/learn.hpp"

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
    std::vector<T> pairs(most * size), mixed(most * size), shares(most * m_a);
    std::fill_n(gradient.data, gradient.size(), T(0));
    double value = 0;
    for (Index begin = 0; begin < n; begin += chunk) {
        const Index count = std::min(chunk, n - begin);
        std::fill_n(mixed.data(), count * size, T(0));
        add_product(outside.row(begin), m_a, 1, tensor.data, mixed.data(), count, m_a, size);
        for (Index r = 0; r < count; ++r) {
            T *pair = pairs.data() + r * size;
            outer(left.row(begin + r), m_b, right.row(begin + r), m_c, pair);
            const double z = std::max<double>(dot(mixed.data() + r * size, pair, size), 1e-300);
            const double weight = weights[begin + r];
            value += weight * std::log(z);
            for (Index i = 0; i < m_a; ++i) shares[r * m_a + i] = static_cast<T>(weight / z * outside(begin + r, i));
        }
        add_product(shares.data(), 1, m_a, pairs.data(), gradient.data, m_a, count, size);
    }
    return value;
}

// Run EM for equation 1 from `tensor`, with `strength` pseudo-counts distributed like `start`; arrays as in `rule_pass`.
template <class T>
void rule_em(Matrix<const T> outside, Matrix<const T> left, Matrix<const T> right, Vector<const T> weights,
             Matrix<const T> start, double strength, Index chunk, Index iterations, Matrix<T> tensor) {
    std::vector<T> room(tensor.size());
    const Matrix<T> gradient{room.data(), {tensor.shape[0], tensor.shape[1]}};
    double total = 0;
    for (Index r = 0; r < weights.size(); ++r) total += weights[r];
    for (Index iteration = 0; iteration < iterations; ++iteration) {
        rule_pass<T>(outside, left, right, weights, tensor, chunk, gradient);
        for (Index i = 0; i < tensor.size(); ++i) {
            const double count = tensor.data[i] * gradient.data[i] + strength * start.data[i];
            tensor.data[i] = static_cast<T>(count / (total + strength));
        }
    }
}

}  // namespace

void bind_equation_one(nb::module_ &module) {
    module.def("rule_pass", &rule_pass<float>, unlocked());
    module.def("rule_pass", &rule_pass<double>, unlocked());
    module.def("rule_em", &rule_em<float>, unlocked());
    module.def("rule_em", &rule_em<double>, unlocked());
}

}  // namespace sapwood
