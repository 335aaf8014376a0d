// Posteriors of the spans of a sentence under a weighted tree automaton of one sort: inside and outside over all its
// binary trees, without pruning.
//
// The transitions are a dense tensor T(i, j, k), a sparse one, or a sum of R products (a CP decomposition), for which
// vectors are projected once per cell, and a split costs R (Cohen, Satta and Collins 2013). With N words and n states that
// takes N^2 n^3 + N^3 n^2 steps, N^3 times the pairs of states that occur as children, or N^3 R + N^2 n R.
//
// Inside vectors are scaled by powers of two, one for each cell: `inside` is a 2^-e. Outside vectors are scaled the other
// way and divided by the sentence's weight Z, b 2^e / Z, so that the product of both is a posterior. Weights are any real
// numbers. Lost are weights below 1e-250 of the largest one in the same vector.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "core/memory.hpp"
#include "core/module.hpp"
#include "core/records.hpp"
#include "core/scaling.hpp"
#include "core/simd.hpp"

namespace sapwood {
namespace {

constexpr Index nothing = -(Index{1} << 40);  // the exponent of a vector of zeros
constexpr double largest = 1e250;             // outside weights beyond belong to states without inside weight

// The cells of a sentence of n words, those of the same width one behind the other, from left to right.
struct Cells {
    Index n;

    Index count(Index width) const { return n - width + 1; }
    Index first(Index width) const { return (width - 1) * n - (width - 1) * (width - 2) / 2; }
    Index of(Index i, Index j) const { return first(j - i) + i; }
    Index size() const { return n * (n + 1) / 2; }
};

// Scaled inside vectors.
struct Inside {
    Cells cells;
    Index states;
    std::vector<double> values;    // (cells, states)
    std::vector<Index> exponents;  // (cells)

    Inside(Index n, Index states) : cells{n}, states(states), values(cells.size() * states), exponents(cells.size()) {}
    const double *at(Index i, Index j) const { return values.data() + cells.of(i, j) * states; }
    double *of_width(Index width) { return values.data() + cells.first(width) * states; }

    // Set the factors of all splits of (i, j) relative to the largest one, whose exponent is returned.
    Index relative_factors(Index i, Index j, std::vector<double> &factors) const {
        Index reference = 2 * nothing;
        for (Index m = i + 1; m < j; ++m) reference = std::max(reference, sum(i, m, j));
        set_factors(i, j, reference, factors);
        return reference;
    }
    // Set the factors of all splits of (i, j) relative to its own exponent.
    void own_factors(Index i, Index j, std::vector<double> &factors) const {
        set_factors(i, j, exponents[cells.of(i, j)], factors);
    }
    // Bring the largest absolute value of a cell's vector into [1/2, 1); what it was made of had the exponent `reference`.
    void settle(Index cell, Index reference) {
        double *vector = values.data() + cell * states, most = 0;
        for (Index s = 0; s < states; ++s) most = std::max(most, std::abs(vector[s]));
        if (most == 0) {
            exponents[cell] = nothing;
            return;
        }
        const int shift = binary_exponent(most);
        const double scale = power_of_two(-shift);
        for (Index s = 0; s < states; ++s) vector[s] *= scale;
        exponents[cell] = reference + shift;
    }

  private:
    Index sum(Index i, Index m, Index j) const { return exponents[cells.of(i, m)] + exponents[cells.of(m, j)]; }
    void set_factors(Index i, Index j, Index reference, std::vector<double> &factors) const {
        factors.resize(j - i - 1);
        for (Index m = i + 1; m < j; ++m) factors[m - i - 1] = power_of_two(sum(i, m, j) - reference);
    }
};

// Each kind of transitions fills the inside vectors of a width (`join`), is told when they are scaled (`keep`), finds the
// outside vectors of a width (`collect`), and passes them on to narrower cells (`part`).

struct CPFactors {
    Matrix<const double> parent, parent_t;  // (n, R), (R, n)
    Matrix<const double> both, both_t;      // (n, 2 R), (2 R, n): left factors, then right ones

    static constexpr auto fields() {
        return std::tuple{field("parent", &CPFactors::parent), field("parent_t", &CPFactors::parent_t),
                          field("both", &CPFactors::both), field("both_t", &CPFactors::both_t)};
    }
};

class CPChart {
  public:
    using Rules = CPFactors;
    static Index states(const Rules &rules) { return rules.parent.shape[0]; }

    CPChart(const Rules &rules, Inside &inside)
        : rules_(rules), inside_(inside), rank_(rules.parent.shape[1]), projected_(inside.cells.size() * 2 * rank_) {
        const Index n = states(rules);
        check_shape("parent_t", rules.parent_t, rank_, n);
        check_shape("both", rules.both, n, 2 * rank_);
        check_shape("both_t", rules.both_t, 2 * rank_, n);
    }
    void join(Index width, std::vector<Index> &references) {
        const Cells &cells = inside_.cells;
        std::vector<double> sums(cells.count(width) * rank_);
        for (Index i = 0; i < cells.count(width); ++i) {
            const Index j = i + width;
            references[i] = inside_.relative_factors(i, j, factors_);
            double *target = sums.data() + i * rank_;
            for (Index m = i + 1; m < j; ++m) {
                const double factor = factors_[m - i - 1], *left = at(projected_, i, m), *right = at(projected_, m, j) + rank_;
                if (factor == 0) continue;
#pragma omp simd
                for (Index r = 0; r < rank_; ++r) target[r] += factor * left[r] * right[r];
            }
        }
        gemm(sums.data(), rank_, 1, rules_.parent_t.data, inside_.of_width(width), cells.count(width), rank_, inside_.states);
    }
    void keep(Index width) {
        const Cells &cells = inside_.cells;
        gemm(inside_.of_width(width), inside_.states, 1, rules_.both.data, projected_.data() + cells.first(width) * 2 * rank_,
             cells.count(width), inside_.states, 2 * rank_);
    }
    void collect(Index width, double *outside) {
        const Cells &cells = inside_.cells;
        if (arriving_.empty()) return;  // the whole sentence
        gemm(arriving_.data() + cells.first(width) * 2 * rank_, 2 * rank_, 1, rules_.both_t.data, outside, cells.count(width),
             2 * rank_, inside_.states);
    }
    void part(Index width, const double *outside) {
        const Cells &cells = inside_.cells;
        arriving_.resize(projected_.size());
        std::vector<double> above(cells.count(width) * rank_);
        gemm(outside, inside_.states, 1, rules_.parent.data, above.data(), cells.count(width), inside_.states, rank_);
        for (Index i = 0; i < cells.count(width); ++i) {
            const Index j = i + width;
            inside_.own_factors(i, j, factors_);
            const double *from = above.data() + i * rank_;
            for (Index m = i + 1; m < j; ++m) {
                const double factor = factors_[m - i - 1], *left = at(projected_, i, m), *right = at(projected_, m, j) + rank_;
                if (factor == 0) continue;
                double *to_left = at(arriving_, i, m), *to_right = at(arriving_, m, j) + rank_;
#pragma omp simd
                for (Index r = 0; r < rank_; ++r) {
                    const double passed = factor * from[r];
                    to_left[r] += passed * right[r];
                    to_right[r] += passed * left[r];
                }
            }
        }
    }

  private:
    double *at(std::vector<double> &values, Index i, Index j) { return values.data() + inside_.cells.of(i, j) * 2 * rank_; }

    Rules rules_;
    Inside &inside_;
    Index rank_;
    // (cells, 2 R): inside vectors seen from above, as a left and as a right child; what arrives from parents.
    std::vector<double> projected_, arriving_, factors_;
};

struct DenseTransitions {
    Matrix<const double> tensor, tensor_t;  // (n, n * n), (n * n, n)

    static constexpr auto fields() {
        return std::tuple{field("tensor", &DenseTransitions::tensor), field("tensor_t", &DenseTransitions::tensor_t)};
    }
};

class DenseChart {
  public:
    using Rules = DenseTransitions;
    static Index states(const Rules &rules) { return rules.tensor.shape[0]; }

    DenseChart(const Rules &rules, Inside &inside)
        : rules_(rules), inside_(inside), n_(states(rules)), matrices_(block * n_ * n_), transposed_(n_ * n_) {
        check_shape("tensor", rules.tensor, n_, n_ * n_);
        check_shape("tensor_t", rules.tensor_t, n_ * n_, n_);
    }
    void join(Index width, std::vector<Index> &references) {
        const Index count = inside_.cells.count(width);
        for (Index begin = 0; begin < count; begin += block) {
            const Index size = std::min(block, count - begin);
            std::fill_n(matrices_.begin(), size * n_ * n_, 0.0);
            for (Index x = 0; x < size; ++x) {
                const Index i = begin + x;
                references[i] = inside_.relative_factors(i, i + width, factors_);
                gather(i, i + width);
                for (Index m = 0; m < width - 1; ++m)
                    for (Index s = 0; s < n_; ++s) lefts_[m * n_ + s] *= factors_[m];
                gemm(lefts_.data(), 1, n_, rights_.data(), matrices_.data() + x * n_ * n_, n_, width - 1, n_);
            }
            gemm(matrices_.data(), n_ * n_, 1, rules_.tensor_t.data, inside_.of_width(width) + begin * n_, size, n_ * n_, n_);
        }
    }
    void keep(Index) {}
    void collect(Index width, double *outside) {
        if (outside_.empty()) return;
        std::copy_n(outside_.data() + inside_.cells.first(width) * n_, inside_.cells.count(width) * n_, outside);
    }
    void part(Index width, const double *outside) {
        const Index count = inside_.cells.count(width);
        outside_.resize(inside_.values.size());
        for (Index begin = 0; begin < count; begin += block) {
            const Index size = std::min(block, count - begin);
            std::fill_n(matrices_.begin(), size * n_ * n_, 0.0);
            gemm(outside + begin * n_, n_, 1, rules_.tensor.data, matrices_.data(), size, n_, n_ * n_);
            for (Index x = 0; x < size; ++x) pass_on(begin + x, begin + x + width, matrices_.data() + x * n_ * n_);
        }
    }

  private:
    static constexpr Index block = 16;

    // Copy the children of all splits of (i, j).
    void gather(Index i, Index j) {
        lefts_.resize((j - i - 1) * n_), rights_.resize((j - i - 1) * n_);
        for (Index m = i + 1; m < j; ++m) {
            std::copy_n(inside_.at(i, m), n_, lefts_.data() + (m - i - 1) * n_);
            std::copy_n(inside_.at(m, j), n_, rights_.data() + (m - i - 1) * n_);
        }
    }
    // Pass on `T(u, I, I)` of the outside vector u of (i, j).
    void pass_on(Index i, Index j, const double *matrix) {
        const Index splits = j - i - 1;
        gather(i, j);
        inside_.own_factors(i, j, factors_);
        for (Index a = 0; a < n_; ++a)
            for (Index b = 0; b < n_; ++b) transposed_[b * n_ + a] = matrix[a * n_ + b];
        to_left_.assign(splits * n_, 0.0), to_right_.assign(splits * n_, 0.0);
        gemm(rights_.data(), n_, 1, transposed_.data(), to_left_.data(), splits, n_, n_);
        gemm(lefts_.data(), n_, 1, matrix, to_right_.data(), splits, n_, n_);
        for (Index m = i + 1; m < j; ++m) {
            const Index x = m - i - 1;
            axpy(outside_.data() + inside_.cells.of(i, m) * n_, factors_[x], to_left_.data() + x * n_, n_);
            axpy(outside_.data() + inside_.cells.of(m, j) * n_, factors_[x], to_right_.data() + x * n_, n_);
        }
    }

    Rules rules_;
    Inside &inside_;
    Index n_;
    std::vector<double> matrices_, transposed_, outside_, lefts_, rights_, to_left_, to_right_, factors_;
};

// Pairs of states that occur below some other, grouped by the left one: group g has the left state `groups[g]`, and the
// right states `others[group_offsets[g] .. group_offsets[g + 1])`; pair p has the parents and weights
// `parents, values[pair_offsets[p] .. pair_offsets[p + 1])`.
struct SparseTransitions {
    Vector<const int32_t> groups;         // (groups)
    Vector<const int64_t> group_offsets;  // (groups + 1)
    Vector<const int32_t> others;         // (pairs)
    Vector<const int64_t> pair_offsets;   // (pairs + 1)
    Vector<const int32_t> parents;        // (entries)
    Vector<const double> values;          // (entries)
    Vector<const double> states;          // (n): not looked at

    static constexpr auto fields() {
        return std::tuple{
            field("groups", &SparseTransitions::groups),   field("group_offsets", &SparseTransitions::group_offsets),
            field("others", &SparseTransitions::others),   field("pair_offsets", &SparseTransitions::pair_offsets),
            field("parents", &SparseTransitions::parents), field("values", &SparseTransitions::values),
            field("states", &SparseTransitions::states)};
    }
};

class SparseChart {
  public:
    using Rules = SparseTransitions;
    static Index states(const Rules &rules) { return rules.states.size(); }

    SparseChart(const Rules &rules, Inside &inside) : rules_(rules), inside_(inside), n_(states(rules)) {}

    void join(Index width, std::vector<Index> &references) {
        for (Index i = 0; i < inside_.cells.count(width); ++i) {
            references[i] = inside_.relative_factors(i, i + width, factors_);
            by_state(i, i + width, factors_);
            double *target = inside_.of_width(width) + i * n_;
            for (Index g = 0; g < rules_.groups.size(); ++g) {
                const Run &left = left_run_[rules_.groups[g]];
                if (left.begin >= left.end) continue;
                const double *x = lefts_.data() + rules_.groups[g] * splits_;
                for (Index p = rules_.group_offsets[g]; p < rules_.group_offsets[g + 1]; ++p) {
                    const Run &right = right_run_[rules_.others[p]];
                    const Index begin = std::max(left.begin, right.begin), end = std::min(left.end, right.end);
                    if (begin >= end) continue;
                    const double *y = rights_.data() + rules_.others[p] * splits_;
                    const double total = dot(x + begin, y + begin, end - begin);
                    for (Index e = rules_.pair_offsets[p]; e < rules_.pair_offsets[p + 1]; ++e)
                        target[rules_.parents[e]] += rules_.values[e] * total;
                }
            }
        }
    }
    void keep(Index) {}
    void collect(Index width, double *outside) {
        if (outside_.empty()) return;
        std::copy_n(outside_.data() + inside_.cells.first(width) * n_, inside_.cells.count(width) * n_, outside);
    }
    void part(Index width, const double *outside) {
        outside_.resize(inside_.values.size());
        for (Index i = 0; i < inside_.cells.count(width); ++i) pass_on(i, i + width, outside + i * n_);
    }

  private:
    struct Run {
        Index begin, end;
    };

    // Write the children of all splits state by state, left ones times factors, and the first and last splits where a
    // state's weight is not zero.
    void by_state(Index i, Index j, const std::vector<double> &factors) {
        splits_ = j - i - 1;
        lefts_.resize(n_ * splits_), rights_.resize(n_ * splits_);
        left_run_.assign(n_, {splits_, 0}), right_run_.assign(n_, {splits_, 0});
        for (Index x = 0; x < splits_; ++x) {
            const double *left = inside_.at(i, i + 1 + x), *right = inside_.at(i + 1 + x, j);
            for (Index s = 0; s < n_; ++s) {
                lefts_[s * splits_ + x] = factors[x] * left[s];
                rights_[s * splits_ + x] = right[s];
                if (left[s] != 0) left_run_[s] = {std::min(left_run_[s].begin, x), x + 1};
                if (right[s] != 0) right_run_[s] = {std::min(right_run_[s].begin, x), x + 1};
            }
        }
    }
    void pass_on(Index i, Index j, const double *parent) {
        inside_.own_factors(i, j, factors_);
        ones_.assign(factors_.size(), 1.0);
        by_state(i, j, ones_);
        to_left_.assign(n_ * splits_, 0.0), to_right_.assign(n_ * splits_, 0.0);
        for (Index g = 0; g < rules_.groups.size(); ++g) {
            const Index a = rules_.groups[g];
            const Run &left = left_run_[a];
            for (Index p = rules_.group_offsets[g]; p < rules_.group_offsets[g + 1]; ++p) {
                const Index b = rules_.others[p];
                const Run &right = right_run_[b];
                if (left.begin >= left.end && right.begin >= right.end) continue;
                double total = 0;
                for (Index e = rules_.pair_offsets[p]; e < rules_.pair_offsets[p + 1]; ++e)
                    total += rules_.values[e] * parent[rules_.parents[e]];
                if (total == 0) continue;
                add(to_left_.data() + a * splits_, total, rights_.data() + b * splits_, right);
                add(to_right_.data() + b * splits_, total, lefts_.data() + a * splits_, left);
            }
        }
        for (Index x = 0; x < splits_; ++x) {
            double *left = outside_.data() + inside_.cells.of(i, i + 1 + x) * n_;
            double *right = outside_.data() + inside_.cells.of(i + 1 + x, j) * n_;
            for (Index s = 0; s < n_; ++s) {
                left[s] += factors_[x] * to_left_[s * splits_ + x];
                right[s] += factors_[x] * to_right_[s * splits_ + x];
            }
        }
    }
    static void add(double *target, double factor, const double *source, const Run &run) {
        for (Index x = run.begin; x < run.end; ++x) target[x] += factor * source[x];
    }

    Rules rules_;
    Inside &inside_;
    Index n_, splits_ = 0;
    std::vector<double> lefts_, rights_, to_left_, to_right_, outside_, factors_, ones_;
    std::vector<Run> left_run_, right_run_;
};

// Where the spans (i, j) of n words stand in results: by their starts.
Index by_start(Index i, Index j, Index n) { return i * n - i * (i - 1) / 2 + (j - i - 1); }

// Fill `posteriors` (spans, groups): the share of the sentence's weight that trees have with a node over a span, in a state
// of a group. Return the sign of the sentence's weight, and the logarithm of its absolute value.
//
// `root` (n) has the weights of states at the root, `leaves` (N, n) the vectors of the words, and `groups` (n) the group of
// each state. A sentence without weight has posteriors of zero. Raises TimeoutError after `seconds`.
template <class Chart>
std::pair<int, double> span_posteriors(const typename Chart::Rules &rules, Vector<const double> root,
                                       Matrix<const double> leaves, Vector<const int32_t> groups, double seconds,
                                       Matrix<double> posteriors) {
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    const Index n = leaves.shape[0], states = Chart::states(rules);
    check_shape("root", root, states);
    check_shape("leaves", leaves, any_size, states);
    check_shape("groups", groups, states);
    check_shape("posteriors", posteriors, n * (n + 1) / 2, any_size);
    const auto check_time = [&] {
        if (std::chrono::duration<double>(Clock::now() - began).count() > seconds) throw TimedOut();
    };
    std::fill_n(posteriors.data, posteriors.size(), 0.0);
    if (n == 0) return {0, 0.0};
    Inside inside(n, states);
    const Cells &cells = inside.cells;
    Chart chart(rules, inside);
    std::vector<Index> references(n);
    std::copy_n(leaves.data, n * states, inside.of_width(1));
    for (Index width = 1; width <= n; ++width) {
        check_time();
        if (width > 1) chart.join(width, references);
        for (Index i = 0; i < cells.count(width); ++i) inside.settle(cells.first(width) + i, references[i]);
        if (width < n) chart.keep(width);
    }
    const double total = dot(root.data, inside.at(0, n), states);
    if (total == 0 || inside.exponents[cells.of(0, n)] == nothing) return {0, 0.0};
    std::vector<double> outside;
    for (Index width = n; width >= 1; --width) {
        check_time();
        outside.assign(cells.count(width) * states, 0.0);
        if (width == n)
            for (Index s = 0; s < states; ++s) outside[s] = root[s] / total;
        else chart.collect(width, outside.data());
        for (double &weight : outside)
            if (!(std::abs(weight) <= largest)) weight = 0;
        for (Index i = 0; i < cells.count(width); ++i) {
            const double *own = inside.at(i, i + width), *out = outside.data() + i * states;
            double *target = posteriors.row(by_start(i, i + width, n));
            for (Index s = 0; s < states; ++s) target[groups[s]] += own[s] * out[s];
            // What is outside of a vector of zeros leads nowhere.
            if (inside.exponents[cells.of(i, i + width)] == nothing) std::fill_n(outside.data() + i * states, states, 0.0);
        }
        if (width > 1) chart.part(width, outside.data());
    }
    const double exponent = static_cast<double>(inside.exponents[cells.of(0, n)]);
    return {total > 0 ? 1 : -1, std::log(std::abs(total)) + exponent * std::log(2.0)};
}

template <class Chart> void bind(nb::module_ &module, const char *name) {
    module.def(name, &span_posteriors<Chart>, "rules"_a, "root"_a, "leaves"_a, "groups"_a, "seconds"_a, "posteriors"_a,
               unlocked());
}

}  // namespace

void bind_span_posteriors(nb::module_ &module) {
    bind<CPChart>(module, "cp_span_posteriors");
    bind<DenseChart>(module, "dense_span_posteriors");
    bind<SparseChart>(module, "sparse_span_posteriors");
}

}  // namespace sapwood
