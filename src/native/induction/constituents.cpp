// Inside and outside over all binary trees whose nodes have hidden states, and whose spans have weights.
//
// Two kinds of rules, c -> a b for states a, b, c:
//
// - any weights, `rule[c][a][b]`: the outer products of the children are added up over the divisions of a span, and then
//   the rule is applied once, in n^3 k^2 / 6 + n^2 k^3 / 2 steps;
// - of low rank, `sum_r up[c][r] left[r][a] right[r][b]` (Cohen, Satta and Collins 2013; Yang, Zhao and Tu 2021): each
//   cell is seen once from the side of its parent, as a left and as a right child, and children are multiplied there,
//   in n^3 r / 6 + n^2 k r steps.
//
// Either way what a single word is as a child is a row of a table: of states for the first kind, seen from above for the
// second, so words, tags, and states shared or not with those of larger spans are all the same here. The weights of
// spans leave out what cannot be a constituent (0), or make some more probable than others.
#include <algorithm>
#include <cmath>

#include "core/simd.hpp"
#include "induction/induction.hpp"

namespace sapwood {
namespace {

// Any rules: the cell of a word is `leaf[word]` (k).
template <class T> struct AnyRule {
    Vector<T> root;  // (k)
    Matrix<T> rule;  // (k, k * k)
    Matrix<T> leaf;  // (words, k)

    static constexpr auto fields() {
        return std::make_tuple(field("root", &AnyRule::root), field("rule", &AnyRule::rule), field("leaf", &AnyRule::leaf));
    }
};

// Rules of low rank: `left_leaf[word]` (r) is what a word is as a left child, seen from above.
template <class T> struct LowRank {
    Vector<T> root;                   // (k)
    Matrix<T> up;                     // (k, r)
    Matrix<T> left, right;            // (r, k)
    Matrix<T> left_leaf, right_leaf;  // (words, r)

    static constexpr auto fields() {
        return std::make_tuple(field("root", &LowRank::root), field("up", &LowRank::up), field("left", &LowRank::left),
                               field("right", &LowRank::right), field("left_leaf", &LowRank::left_leaf),
                               field("right_leaf", &LowRank::right_leaf));
    }
};

// The part of both that differs: how cells are made from narrower ones (`join`), and how what stands outside of them is
// passed on (`part`). A cell of one word has no vector of states in the second kind.
class AnyChart {
  public:
    using Weights = AnyRule<const double>;
    using Counts = AnyRule<double>;

    AnyChart(const Weights &weights, const Counts &counts)
        : states_(weights.root.size()), weights_(weights), counts_(counts), pairs_(states_ * states_),
          out_pairs_(states_ * states_) {}

    Index states() const { return states_; }
    bool one_word() const { return true; }  // whether a sentence of one word is a tree

    void begin(const int32_t *words, Index n, std::vector<double> &cells) {
        n_ = n;
        words_ = words;
        cells_ = &cells;
        for (Index i = 0; i < n; ++i) std::copy_n(weights_.leaf.row(words[i]), states_, cell(i, i + 1));
    }
    // Fill a cell of two words and more.
    void join(Index i, Index j, const Exponents &exponents, double *target) {
        gather(i, j, exponents);
        for (Index c = 0; c < states_; ++c) target[c] = dot(weights_.rule.row(c), pairs_.data(), states_ * states_);
    }
    void seen_from_above(Index, Index) {}
    void begin_outside(std::vector<double> &outside) { outside_ = &outside; }
    void gather_outside(Index, Index, double) {}
    void count_leaf(Index i, double times) {
        const double *own = cell(i, i + 1), *out = outside(i, i + 1);
        double *target = counts_.leaf.row(words_[i]);
        for (Index c = 0; c < states_; ++c) target[c] += times * own[c] * out[c];
    }
    // Pass on what stands outside of a cell, multiplied by `scale`, which undoes what it was divided by.
    void part(Index i, Index j, const Exponents &exponents, double scale, double times) {
        gather(i, j, exponents);
        std::fill(out_pairs_.begin(), out_pairs_.end(), 0.0);
        const double *out = outside(i, j);
        for (Index c = 0; c < states_; ++c) {
            const double factor = scale * out[c];
            if (factor == 0) continue;
            const double *rule = weights_.rule.row(c);
            double *target = counts_.rule.row(c);
            const double share = times * factor;
#pragma omp simd
            for (Index x = 0; x < states_ * states_; ++x) {
                out_pairs_[x] += factor * rule[x];
                target[x] += share * rule[x] * pairs_[x];
            }
        }
        for (Index m = i + 1; m < j; ++m) {
            const double factor = exponents.factor[m];
            if (factor == 0) continue;
            const double *left = cell(i, m), *right = cell(m, j);
            double *to_left = outside(i, m), *to_right = outside(m, j);
            for (Index a = 0; a < states_; ++a) {
                const double *row = out_pairs_.data() + a * states_;
                to_left[a] += factor * dot(row, right, states_);
                axpy(to_right, factor * left[a], row, states_);
            }
        }
    }

  private:
    // Fill `pairs_` with the outer products of the children.
    void gather(Index i, Index j, const Exponents &exponents) {
        std::fill(pairs_.begin(), pairs_.end(), 0.0);
        for (Index m = i + 1; m < j; ++m) {
            const double factor = exponents.factor[m];
            if (factor == 0) continue;
            const double *left = cell(i, m), *right = cell(m, j);
            for (Index a = 0; a < states_; ++a) axpy(pairs_.data() + a * states_, factor * left[a], right, states_);
        }
    }
    double *cell(Index i, Index j) { return cells_->data() + span_number(i, j, n_) * states_; }
    double *outside(Index i, Index j) { return outside_->data() + span_number(i, j, n_) * states_; }

    Index states_, n_ = 0;
    const int32_t *words_ = nullptr;
    Weights weights_;
    Counts counts_;
    std::vector<double> *cells_ = nullptr, *outside_ = nullptr, pairs_, out_pairs_;
};

class LowRankChart {
  public:
    using Weights = LowRank<const double>;
    using Counts = LowRank<double>;

    LowRankChart(const Weights &weights, const Counts &counts)
        : states_(weights.root.size()), rank_(weights.up.shape[1]), weights_(weights), counts_(counts), above_(rank_),
          up_(rank_) {}

    Index states() const { return states_; }
    bool one_word() const { return false; }

    void begin(const int32_t *words, Index n, std::vector<double> &cells) {
        n_ = n;
        words_ = words;
        cells_ = &cells;
        as_left_.assign(n_spans(n) * rank_, 0.0);
        as_right_.assign(n_spans(n) * rank_, 0.0);
        for (Index i = 0; i < n; ++i) {
            std::copy_n(weights_.left_leaf.row(words[i]), rank_, at(as_left_, i, i + 1));
            std::copy_n(weights_.right_leaf.row(words[i]), rank_, at(as_right_, i, i + 1));
        }
    }
    void join(Index i, Index j, const Exponents &exponents, double *target) {
        gather(i, j, exponents);
        for (Index c = 0; c < states_; ++c) target[c] = dot(weights_.up.row(c), above_.data(), rank_);
    }
    void seen_from_above(Index i, Index j) {
        const double *own = cell(i, j);
        double *as_left = at(as_left_, i, j), *as_right = at(as_right_, i, j);
        for (Index r = 0; r < rank_; ++r) {
            as_left[r] = dot(weights_.left.row(r), own, states_);
            as_right[r] = dot(weights_.right.row(r), own, states_);
        }
    }
    void begin_outside(std::vector<double> &outside) {
        outside_ = &outside;
        out_left_.assign(n_spans(n_) * rank_, 0.0);
        out_right_.assign(n_spans(n_) * rank_, 0.0);
    }
    // Bring what its parents have left at a cell down to its states.
    void gather_outside(Index i, Index j, double times) {
        const double *own = cell(i, j), *as_left = at(out_left_, i, j), *as_right = at(out_right_, i, j);
        double *out = outside_->data() + span_number(i, j, n_) * states_;
        for (Index r = 0; r < rank_; ++r) {
            const double from_left = as_left[r], from_right = as_right[r];
            if (from_left == 0 && from_right == 0) continue;
            const double *left = weights_.left.row(r), *right = weights_.right.row(r);
            double *to_left = counts_.left.row(r), *to_right = counts_.right.row(r);
#pragma omp simd
            for (Index c = 0; c < states_; ++c) {
                const double first = from_left * left[c], second = from_right * right[c];
                out[c] += first + second;
                to_left[c] += times * first * own[c];
                to_right[c] += times * second * own[c];
            }
        }
    }
    void count_leaf(Index i, double times) {
        const double *as_left = at(as_left_, i, i + 1), *as_right = at(as_right_, i, i + 1);
        const double *out_left = at(out_left_, i, i + 1), *out_right = at(out_right_, i, i + 1);
        double *to_left = counts_.left_leaf.row(words_[i]), *to_right = counts_.right_leaf.row(words_[i]);
        for (Index r = 0; r < rank_; ++r) {
            to_left[r] += times * as_left[r] * out_left[r];
            to_right[r] += times * as_right[r] * out_right[r];
        }
    }
    void part(Index i, Index j, const Exponents &exponents, double scale, double times) {
        gather(i, j, exponents);
        std::fill(up_.begin(), up_.end(), 0.0);
        const double *out = outside_->data() + span_number(i, j, n_) * states_;
        for (Index c = 0; c < states_; ++c) {
            const double factor = scale * out[c], share = times * factor;
            if (factor == 0) continue;
            const double *up = weights_.up.row(c);
            double *target = counts_.up.row(c);
#pragma omp simd
            for (Index r = 0; r < rank_; ++r) up_[r] += factor * up[r], target[r] += share * up[r] * above_[r];
        }
        for (Index m = i + 1; m < j; ++m) {
            const double factor = exponents.factor[m];
            if (factor == 0) continue;
            const double *left = at(as_left_, i, m), *right = at(as_right_, m, j);
            double *to_left = at(out_left_, i, m), *to_right = at(out_right_, m, j);
#pragma omp simd
            for (Index r = 0; r < rank_; ++r) {
                const double passed = factor * up_[r];
                to_left[r] += passed * right[r];
                to_right[r] += passed * left[r];
            }
        }
    }

  private:
    void gather(Index i, Index j, const Exponents &exponents) {
        std::fill(above_.begin(), above_.end(), 0.0);
        for (Index m = i + 1; m < j; ++m) {
            const double factor = exponents.factor[m];
            if (factor == 0) continue;
            const double *left = at(as_left_, i, m), *right = at(as_right_, m, j);
            double *target = above_.data();
#pragma omp simd
            for (Index r = 0; r < rank_; ++r) target[r] += factor * left[r] * right[r];
        }
    }
    double *cell(Index i, Index j) { return cells_->data() + span_number(i, j, n_) * states_; }
    double *at(std::vector<double> &values, Index i, Index j) { return values.data() + span_number(i, j, n_) * rank_; }

    Index states_, rank_, n_ = 0;
    const int32_t *words_ = nullptr;
    Weights weights_;
    Counts counts_;
    std::vector<double> *cells_ = nullptr, *outside_ = nullptr, as_left_, as_right_, out_left_, out_right_, above_, up_;
};

// Return the logarithm of the sum over all trees of each sentence, -inf where there is none with a weight.
//
// `span_weights` (all spans) may be empty: all are 1; those of single words are not looked at. Expected uses are added to
// `counts`, each sentence's `times` over. `posteriors` (all spans) are filled unless they are empty, and expected states
// of wider spans are added to `occupancy` (k).
template <class Chart>
Array<double> sum_constituents(const Sentences &sentences, const typename Chart::Weights &weights,
                               Vector<const double> span_weights, Vector<const double> times,
                               const typename Chart::Counts &counts, Vector<double> posteriors, Vector<double> occupancy) {
    Array<double> logarithms(sentences.count());
    Chart chart(weights, counts);
    const Index k = chart.states();
    Exponents exponents;
    std::vector<double> cells, outside;
    Index first_span = 0;
    for (Index s = 0; s < sentences.count(); ++s, first_span += n_spans(sentences.length(s - 1))) {
        const Index n = sentences.length(s);
        logarithms[s] = 0;
        if (n < (chart.one_word() ? 1 : 2)) continue;
        const auto weight = [&](Index span) { return span_weights.size() ? span_weights[first_span + span] : 1.0; };
        exponents.begin(n);
        cells.assign(n_spans(n) * k, 0.0);
        chart.begin(sentences.words.data + sentences.offsets[s], n, cells);
        for (Index width = 2; width <= n; ++width)
            for (Index i = 0; i + width <= n; ++i) {
                const Index span = span_number(i, i + width, n);
                double *target = cells.data() + span * k;
                if (weight(span) == 0) {
                    exponents.settle(span, 0);
                    continue;
                }
                exponents.divide(i, i + width, n, false);
                chart.join(i, i + width, exponents, target);
                for (Index c = 0; c < k; ++c) target[c] *= weight(span);
                const double scale = exponents.settle(span, *std::max_element(target, target + k));
                for (Index c = 0; c < k; ++c) target[c] *= scale;
                if (width < n) chart.seen_from_above(i, i + width);
            }
        const Index whole = span_number(0, n, n);
        const double total = dot(weights.root.data, cells.data() + whole * k, k);
        logarithms[s] = std::log(total) + exponents.of[whole] * std::log(2.0);
        if (!(total > 0)) continue;
        outside.assign(n_spans(n) * k, 0.0);
        chart.begin_outside(outside);
        for (Index c = 0; c < k; ++c) {
            outside[whole * k + c] = weights.root[c] / total;
            counts.root[c] += times[s] * outside[whole * k + c] * cells[whole * k + c];
        }
        for (Index width = n; width >= 2; --width)
            for (Index i = 0; i + width <= n; ++i) {
                const Index span = span_number(i, i + width, n);
                if (weight(span) == 0) continue;
                if (width < n) chart.gather_outside(i, i + width, times[s]);
                double posterior = 0;
                for (Index c = 0; c < k; ++c) {
                    const double own = outside[span * k + c] * cells[span * k + c];
                    posterior += own;
                    occupancy[c] += times[s] * own;
                }
                if (posteriors.size()) posteriors[first_span + span] = posterior;
                exponents.divide(i, i + width, n, true);
                chart.part(i, i + width, exponents, weight(span), times[s]);
            }
        for (Index i = 0; i < n; ++i) {
            chart.count_leaf(i, times[s]);
            if (posteriors.size()) posteriors[first_span + span_number(i, i + 1, n)] = 1;
        }
    }
    return logarithms;
}

}  // namespace

void bind_constituents(nb::module_ &module) {
    module.def("sum_constituents", &sum_constituents<AnyChart>, "sentences"_a, "weights"_a, "span_weights"_a, "times"_a,
               "counts"_a, "posteriors"_a, "occupancy"_a, unlocked());
    module.def("sum_low_rank", &sum_constituents<LowRankChart>, "sentences"_a, "weights"_a, "span_weights"_a, "times"_a,
               "counts"_a, "posteriors"_a, "occupancy"_a, unlocked());
}

}  // namespace sapwood
