// Inside and outside over all binary trees of a PCFG whose left and right children are independent of each other
// (SimplePCFG; Liu, Yang, Kim and Tu 2023): A -> B C has the weight `left[A][B] right[A][C]`.
//
// Each cell is seen once from the side of its parents, as a left child and as a right child,
//
//     as_left(i, j) = left inside(i, j),    inside(i, k)[A] = sum over j of as_left(i, j)[A] as_right(j, k)[A],
//
// in n^2 k^2 + n^3 k / 6 steps for n words and k states. The cells of one width of all sentences stand one behind the other, so
// that each width takes one matrix product for all sentences, and the expected uses of all rules take another one. What a word
// is as a child is a row of a table. Numbers are in single precision, relative to an exponent of their span.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/panels.hpp"
#include "core/simd.hpp"
#include "induction/induction.hpp"

namespace sapwood {
namespace {

template <class T> struct Independent {
    Vector<T> root;                   // (k)
    Matrix<T> left, right;            // (k, k): parent, child
    Matrix<T> left_leaf, right_leaf;  // (words, k): what a word is as a child of each parent

    static constexpr auto fields() {
        return std::make_tuple(field("root", &Independent::root), field("left", &Independent::left),
                               field("right", &Independent::right), field("left_leaf", &Independent::left_leaf),
                               field("right_leaf", &Independent::right_leaf));
    }
};

constexpr Index block = 32;      // numbers whose sums stay in registers
constexpr Index few_rows = 512;  // rows of a product of the expected uses: they stay in the cache

// Add to `sums` the products of two cells at each of `count` divisions, by `factors`; `size` is at most a block.
template <bool whole>
[[gnu::always_inline]] inline void add_divisions(float *sums, const float *const *left, const float *const *right,
                                                 const float *factors, Index count, Index first, Index size) {
    const Index width = whole ? block : size;
    for (Index d = 0; d < count; ++d) {
        const float factor = factors[d], *a = left[d] + first, *b = right[d] + first;
#pragma omp simd
        for (Index x = 0; x < width; ++x) sums[x] += factor * a[x] * b[x];
    }
}

class IndependentChart {
  public:
    IndependentChart(const Sentences &sentences, const Independent<const float> &weights, Vector<const double> span_weights)
        : sentences_(sentences), weights_(weights), span_weights_(span_weights), k_(weights.root.size()),
          count_(sentences.count()), first_span_(count_ + 1, 0), exponents_(count_), totals_(count_, 0.0) {
        for (Index s = 0; s < count_; ++s) {
            longest_ = std::max(longest_, sentences.length(s));
            first_span_[s + 1] = first_span_[s] + n_spans(sentences.length(s));
        }
        base_.assign((longest_ + 2) * count_, 0);
        for (Index width = 1; width <= longest_; ++width)
            for (Index s = 0; s < count_; ++s) {
                base_[width * count_ + s] = rows_;
                rows_ += std::max<Index>(sentences.length(s) - width + 1, 0);
                if (width == 1) leaves_ = rows_;
            }
        for (Index s = 0; s < count_; ++s) base_[(longest_ + 1) * count_ + s] = rows_;
    }

    // Fill `logarithms` with those of the sums over all trees.
    void inside(Array<double> &logarithms) {
        const Panels to_left(weights_.left.data, k_, k_, 1, k_), to_right(weights_.right.data, k_, k_, 1, k_);
        for (auto *values : {&cells_, &as_left_, &as_right_}) values->assign(rows_ * k_, 0.0f);
        for (Index s = 0; s < count_; ++s) {
            exponents_[s].begin(sentences_.length(s));
            for (Index i = 0; i < sentences_.length(s); ++i) see_leaf(s, i);
        }
        for (Index width = 2; width <= longest_; ++width) {
            for (Index s = 0; s < count_; ++s)
                for (Index i = 0; i + width <= sentences_.length(s); ++i) join(s, i, i + width);
            const Index first = base_[width * count_], end = base_[(width + 1) * count_];
            to_left.multiply(cells_.data() + first * k_, end - first, nullptr, as_left_.data() + first * k_);
            to_right.multiply(cells_.data() + first * k_, end - first, nullptr, as_right_.data() + first * k_);
        }
        for (Index s = 0; s < count_; ++s) {
            const Index n = sentences_.length(s);
            logarithms[s] = 0;
            if (n < 2) continue;
            const float *top = cells_.data() + row(s, 0, n) * k_;
            for (Index c = 0; c < k_; ++c) totals_[s] += static_cast<double>(weights_.root[c]) * top[c];
            logarithms[s] = std::log(totals_[s]) + exponents_[s].of[span_number(0, n, n)] * std::log(2.0);
        }
    }

    // Add expected uses to `counts`, each sentence's `times` over, fill `posteriors`, and add to `occupancy`.
    void outside(Vector<const double> times, const Independent<float> &counts, Vector<double> posteriors,
                 Vector<double> occupancy) {
        const Panels from_left(weights_.left.data, k_, k_), from_right(weights_.right.data, k_, k_);
        for (auto *values : {&out_left_, &out_right_}) values->assign(rows_ * k_, 0.0f);
        std::vector<float> out;
        std::vector<double> own(k_);
        for (Index width = longest_; width >= 2; --width) {
            const Index first = base_[width * count_], rows = base_[(width + 1) * count_] - first;
            out.resize(rows * k_);
            from_left.multiply(out_left_.data() + first * k_, rows, nullptr, out.data());
            from_right.multiply(
                {out_right_.data() + first * k_, from_right.begin(), nullptr, out.data(), k_, 1, k_, k_, 0, true}, rows,
                has_wide_vectors());
            for (Index s = 0; s < count_; ++s) {
                const Index n = sentences_.length(s);
                if (n < width || !(totals_[s] > 0)) continue;
                for (Index i = 0; i + width <= n; ++i) {
                    float *outside = out.data() + (row(s, i, i + width) - first) * k_;
                    const float *inside = cells_.data() + row(s, i, i + width) * k_;
                    if (width == n)
                        for (Index c = 0; c < k_; ++c) {
                            outside[c] = static_cast<float>(weights_.root[c] / totals_[s] * times[s]);
                            counts.root[c] += outside[c] * inside[c];
                        }
                    double posterior = 0;
                    for (Index c = 0; c < k_; ++c) {
                        own[c] = static_cast<double>(outside[c]) * inside[c];
                        posterior += own[c];
                    }
                    for (Index c = 0; c < k_; ++c) occupancy[c] += own[c];
                    if (posteriors.size() && times[s] > 0)
                        posteriors[first_span_[s] + span_number(i, i + width, n)] = posterior / times[s];
                    part(s, i, i + width, outside);
                }
            }
        }
        for (Index s = 0; s < count_; ++s)
            for (Index i = 0; i < sentences_.length(s); ++i) {
                const Index at = row(s, i, i + 1) * k_, word = sentences_.words[sentences_.offsets[s] + i];
                float *to_left = counts.left_leaf.row(word), *to_right = counts.right_leaf.row(word);
                for (Index c = 0; c < k_; ++c) {
                    to_left[c] += out_left_[at + c] * as_left_[at + c];
                    to_right[c] += out_right_[at + c] * as_right_[at + c];
                }
                if (posteriors.size()) posteriors[first_span_[s] + span_number(i, i + 1, sentences_.length(s))] = 1.0;
            }
        count_rules(out_left_, weights_.left, counts.left);
        count_rules(out_right_, weights_.right, counts.right);
    }

  private:
    Index row(Index s, Index i, Index j) const { return base_[(j - i) * count_ + s] + i; }

    void see_leaf(Index s, Index i) {
        const Index n = sentences_.length(s), at = row(s, i, i + 1) * k_;
        const Index word = sentences_.words[sentences_.offsets[s] + i];
        const float *left = weights_.left_leaf.row(word), *right = weights_.right_leaf.row(word);
        float largest = 0;
        for (Index c = 0; c < k_; ++c) largest = std::max(largest, std::max(left[c], right[c]));
        const float scale = static_cast<float>(exponents_[s].settle(span_number(i, i + 1, n), largest));
        for (Index c = 0; c < k_; ++c) as_left_[at + c] = left[c] * scale, as_right_[at + c] = right[c] * scale;
    }

    // Find the divisions of a span with a factor, and their cells; the exponent of the span is `known` or the largest of
    // theirs.
    void divide(Index s, Index i, Index j, bool known, double weight) {
        const Index n = sentences_.length(s);
        exponents_[s].divide(i, j, n, known);
        lefts_.clear(), rights_.clear(), factors_.clear();
        for (Index m = i + 1; m < j; ++m) {
            const double factor = exponents_[s].factor[m] * weight;
            if (!(factor > 0)) continue;
            lefts_.push_back(row(s, i, m) * k_), rights_.push_back(row(s, m, j) * k_);
            factors_.push_back(static_cast<float>(factor));
        }
    }
    double weight(Index s, Index i, Index j) const {
        return span_weights_.size() ? span_weights_[first_span_[s] + span_number(i, j, sentences_.length(s))] : 1.0;
    }

    // Fill a cell of two words and more.
    void join(Index s, Index i, Index j) {
        const Index n = sentences_.length(s), span = span_number(i, j, n);
        const double weight = this->weight(s, i, j);
        if (weight == 0) {
            exponents_[s].settle(span, 0);
            return;
        }
        divide(s, i, j, false, 1.0);
        left_rows_.clear(), right_rows_.clear();
        for (const Index at : lefts_) left_rows_.push_back(as_left_.data() + at);
        for (const Index at : rights_) right_rows_.push_back(as_right_.data() + at);
        const Index count = static_cast<Index>(factors_.size());
        float *target = cells_.data() + row(s, i, j) * k_;
        Index c = 0;
        for (; c + block <= k_; c += block) {
            float sums[block] = {};
            add_divisions<true>(sums, left_rows_.data(), right_rows_.data(), factors_.data(), count, c, block);
            std::copy_n(sums, block, target + c);
        }
        if (c < k_) add_divisions<false>(target + c, left_rows_.data(), right_rows_.data(), factors_.data(), count, c, k_ - c);
        // In double precision, as a weight may be any number.
        const double scale = exponents_[s].settle(span, *std::max_element(target, target + k_) * weight) * weight;
        for (Index c = 0; c < k_; ++c) target[c] = static_cast<float>(target[c] * scale);
    }

    // Pass on what stands outside of a cell to its parts.
    void part(Index s, Index i, Index j, const float *outside) {
        const double weight = this->weight(s, i, j);
        if (weight == 0) return;
        divide(s, i, j, true, weight);
        for (std::size_t d = 0; d < factors_.size(); ++d) {
            const float factor = factors_[d];
            const float *left = as_left_.data() + lefts_[d], *right = as_right_.data() + rights_[d];
            float *to_left = out_left_.data() + lefts_[d], *to_right = out_right_.data() + rights_[d];
#pragma omp simd
            for (Index c = 0; c < k_; ++c) {
                const float passed = factor * outside[c];
                to_left[c] += passed * right[c];
                to_right[c] += passed * left[c];
            }
        }
    }

    // Add the expected uses of rules: the sum over cells of what stands outside, seen from above, times what is inside.
    void count_rules(const std::vector<float> &outside, Matrix<const float> rules, Matrix<float> counts) {
        std::vector<float> sums(k_ * k_, 0.0f);
        for (Index first = leaves_; first < rows_; first += few_rows) {
            const Index rows = std::min(few_rows, rows_ - first);
            const Panels inside(cells_.data() + first * k_, rows, k_);
            inside.multiply({outside.data() + first * k_, inside.begin(), nullptr, sums.data(), 1, k_, rows, k_, 0, true}, k_,
                            has_wide_vectors());
        }
        for (Index a = 0; a < k_; ++a)
            for (Index b = 0; b < k_; ++b) counts.row(a)[b] += rules.row(a)[b] * sums[a * k_ + b];
    }

    Sentences sentences_;
    Independent<const float> weights_;
    Vector<const double> span_weights_;
    Index k_, count_, longest_ = 0, rows_ = 0, leaves_ = 0;
    std::vector<Index> base_;  // (widths, sentences): the row of the first span
    std::vector<Index> first_span_;
    std::vector<Exponents> exponents_;
    std::vector<double> totals_;
    std::vector<float> cells_, as_left_, as_right_, out_left_, out_right_;  // (rows, k)
    std::vector<Index> lefts_, rights_;
    std::vector<const float *> left_rows_, right_rows_;
    std::vector<float> factors_;
};

// Return the logarithm of the sum over all trees of each sentence, 0 for sentences of one word, -inf where no tree has a
// weight.
//
// Arguments as for `sum_constituents`. If no sentence counts, that is `times` are all 0, nothing else is computed.
Array<double> sum_independent(const Sentences &sentences, const Independent<const float> &weights,
                              Vector<const double> span_weights, Vector<const double> times, const Independent<float> &counts,
                              Vector<double> posteriors, Vector<double> occupancy) {
    Array<double> logarithms(sentences.count());
    IndependentChart chart(sentences, weights, span_weights);
    chart.inside(logarithms);
    bool counted = false;
    for (Index s = 0; s < sentences.count(); ++s) counted |= times[s] != 0;
    if (counted) chart.outside(times, counts, posteriors, occupancy);
    return logarithms;
}

}  // namespace

void bind_independent(nb::module_ &module) {
    module.def("sum_independent", &sum_independent, "sentences"_a, "weights"_a, "span_weights"_a, "times"_a, "counts"_a,
               "posteriors"_a, "occupancy"_a, unlocked());
}

}  // namespace sapwood
