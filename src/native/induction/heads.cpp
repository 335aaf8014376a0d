// Inside and outside over trees in which every word has a head, and spans have weights.
//
// A word takes its arguments one by one: first all to its right, the nearest first, then all to its left. So every
// projective dependency tree is one binary tree, and each of its spans can have a weight (Klein and Manning 2004). A span
// `i .. j` is in one of two phases: its head is its first word `i`, and may take more to the right (`open`); or its head
// is any word of it, and may take more to the left (`left`). A finished one (`whole`) has stopped on both sides.
//
//   open(i, j)    = w(i, j) sum_m open(i, m) go_right(i) sum_a whole(m, j, a) attach_right(a | i)
//   left(i, j, i) = open(i, j) stop_right(i)
//   left(i, j, h) = w(i, j) sum_m left(m, j, h) go_left(h) sum_a whole(i, m, a) attach_left(a | h)
//   whole(i, j, h) = left(i, j, h) stop_left(h)
//
// Whether a word stops depends on whether it has an argument on that side. With the sums over `a` made once for each
// span and head, n words take n^4 / 12 steps at most, all of them in runs over heads. The second phase has one span for
// a single word, too, of weight 1.
#include <algorithm>
#include <cmath>

#include "core/simd.hpp"
#include "induction/induction.hpp"

namespace sapwood {
namespace {

// Weights, or expected counts of their uses. `attach` is by side (0: left), head and argument, the others by side, head
// and whether it has an argument there.
template <class T> struct Valence {
    Cube<T> attach, go, stop;
    Vector<T> root;

    static constexpr auto fields() {
        return std::make_tuple(field("attach", &Valence::attach), field("go", &Valence::go), field("stop", &Valence::stop),
                               field("root", &Valence::root));
    }
};

// What is computed of a sentence. Vectors over words are of `n`; `as_left` has numbers for heads behind the span, and
// `as_right` for heads before it.
struct Chart {
    Index n = 0;
    Exponents exponents;
    std::vector<double> open, left, whole, as_left, as_right;
    std::vector<double> out_open, out_left, out_as_left, out_as_right, out_whole;
    std::vector<double> attach_left, attach_right;  // [argument][head] of this sentence's words
    std::vector<double> edges;                      // [argument][head]: posteriors
    std::vector<double> go_left[2], go_right[2], stop_left[2], stop_right[2];
    std::vector<double> went_left[2], went_right[2], stopped_left[2], stopped_right[2];

    double *at(std::vector<double> &values, Index i, Index j) { return values.data() + span_number(i, j, n) * n; }

    void begin(const int32_t *words, Index length, const Valence<const double> &weights) {
        n = length;
        exponents.begin(n);
        const Index spans = n_spans(n);
        open.assign(spans, 0.0);
        for (auto *values : {&left, &whole, &as_left, &as_right}) values->assign(spans * n, 0.0);
        attach_left.resize(n * n);
        attach_right.resize(n * n);
        for (Index a = 0; a < n; ++a)
            for (Index h = 0; h < n; ++h) {
                attach_left[a * n + h] = weights.attach(0, words[h], words[a]);
                attach_right[a * n + h] = weights.attach(1, words[h], words[a]);
            }
        for (int has = 0; has < 2; ++has) {
            for (auto *values : {&go_left, &go_right, &stop_left, &stop_right}) (*values)[has].resize(n);
            for (Index h = 0; h < n; ++h) {
                go_left[has][h] = weights.go(0, words[h], has);
                go_right[has][h] = weights.go(1, words[h], has);
                stop_left[has][h] = weights.stop(0, words[h], has);
                stop_right[has][h] = weights.stop(1, words[h], has);
            }
        }
    }

    // Fill the numbers of one span, given those of all narrower ones.
    void fill(Index i, Index j, double weight) {
        const Index width = j - i, span = span_number(i, j, n);
        double *own = at(left, i, j), *done = at(whole, i, j);
        if (width == 1) open[span] = 1;
        else {
            exponents.divide(i, j, n, false);
            double total = 0;
            for (Index m = i + 1; m < j; ++m)
                total += exponents.factor[m] * open[span_number(i, m, n)] * go_right[m > i + 1][i] * at(as_right, m, j)[i];
            open[span] = weight * total;
            for (Index m = i + 1; m < j; ++m) {
                const double factor = weight * exponents.factor[m];
                const double *argument = at(as_left, i, m), *head = at(left, m, j);
                own[m] += factor * argument[m] * head[m] * go_left[0][m];
                const double *go = go_left[1].data();
#pragma omp simd
                for (Index h = m + 1; h < j; ++h) own[h] += factor * argument[h] * head[h] * go[h];
            }
        }
        own[i] = open[span] * stop_right[width > 1][i];
        double largest = std::max(open[span], *std::max_element(own + i, own + j));
        const double scale = exponents.settle(span, largest);
        open[span] *= scale;
        for (Index h = i; h < j; ++h) own[h] *= scale, done[h] = own[h] * stop_left[h > i][h];
        double *behind = at(as_left, i, j), *before = at(as_right, i, j);
        for (Index a = i; a < j; ++a) {
            axpy(behind + j, done[a], attach_left.data() + a * n + j, n - j);
            axpy(before, done[a], attach_right.data() + a * n, i);
        }
    }

    void begin_outside() {
        const Index spans = n_spans(n);
        out_open.assign(spans, 0.0);
        for (auto *values : {&out_left, &out_as_left, &out_as_right}) values->assign(spans * n, 0.0);
        edges.assign(n * n, 0.0);
        out_whole.assign(n, 0.0);
        for (int has = 0; has < 2; ++has)
            for (auto *values : {&went_left, &went_right, &stopped_left, &stopped_right}) (*values)[has].assign(n, 0.0);
    }

    // Pass what stands outside of a span on to its parts, given that of all wider ones; returns its posterior. `out_whole`
    // has what the root gives to the whole sentence.
    double spread(Index i, Index j, double weight) {
        const Index width = j - i, span = span_number(i, j, n);
        double *own = at(left, i, j), *done = at(whole, i, j), *out = at(out_left, i, j);
        if (width < n) {
            const double *behind = at(out_as_left, i, j), *before = at(out_as_right, i, j);
            for (Index a = i; a < j; ++a) {
                const double *to_left = attach_left.data() + a * n, *to_right = attach_right.data() + a * n;
                double *edge = edges.data() + a * n;
                double total = 0;
#pragma omp simd reduction(+ : total)
                for (Index h = j; h < n; ++h) {
                    const double part = behind[h] * to_left[h];
                    total += part;
                    edge[h] += part * done[a];
                }
#pragma omp simd reduction(+ : total)
                for (Index h = 0; h < i; ++h) {
                    const double part = before[h] * to_right[h];
                    total += part;
                    edge[h] += part * done[a];
                }
                out_whole[a] = total;
            }
        }
        for (Index h = i; h < j; ++h) {
            stopped_left[h > i][h] += out_whole[h] * done[h];
            out[h] += out_whole[h] * stop_left[h > i][h];
        }
        double posterior = 0;
        for (Index h = i + 1; h < j; ++h) posterior += out[h] * own[h];
        stopped_right[width > 1][i] += out[i] * own[i];
        out_open[span] += out[i] * stop_right[width > 1][i];
        posterior += out_open[span] * open[span];
        if (width == 1) return posterior;
        exponents.divide(i, j, n, true);
        for (Index m = i + 1; m < j; ++m) {
            const double factor = weight * exponents.factor[m];
            double *to_argument = at(out_as_left, i, m), *to_head = at(out_left, m, j);
            const double *argument = at(as_left, i, m), *head = at(left, m, j);
            const double first = factor * out[m] * go_left[0][m];
            to_argument[m] += first * head[m];
            to_head[m] += first * argument[m];
            went_left[0][m] += first * head[m] * argument[m];
            const double *go = go_left[1].data();
            double *went = went_left[1].data();
#pragma omp simd
            for (Index h = m + 1; h < j; ++h) {
                const double part = factor * out[h] * go[h];
                to_argument[h] += part * head[h];
                to_head[h] += part * argument[h];
                went[h] += part * head[h] * argument[h];
            }
            const double part = factor * out_open[span] * go_right[m > i + 1][i];
            const double inner = at(as_right, m, j)[i], outer = open[span_number(i, m, n)];
            at(out_as_right, m, j)[i] += part * outer, out_open[span_number(i, m, n)] += part * inner;
            went_right[m > i + 1][i] += part * inner * outer;
        }
        return posterior;
    }
};

// Add the expected uses of weights in a sentence to counts.
void count(const Chart &chart, const int32_t *words, double times, const Valence<double> &counts) {
    const Index n = chart.n;
    for (Index a = 0; a < n; ++a)
        for (Index h = 0; h < n; ++h)
            if (h != a) counts.attach(h < a, words[h], words[a]) += times * chart.edges[a * n + h];
    for (int has = 0; has < 2; ++has)
        for (Index h = 0; h < n; ++h) {
            counts.go(0, words[h], has) += times * chart.went_left[has][h];
            counts.go(1, words[h], has) += times * chart.went_right[has][h];
            counts.stop(0, words[h], has) += times * chart.stopped_left[has][h];
            counts.stop(1, words[h], has) += times * chart.stopped_right[has][h];
        }
}

// Return the logarithm of the sum over all trees of each sentence, -inf where there is none with a weight.
//
// `span_weights` (all spans) may be empty: all are 1. Expected uses are added to `counts`, each sentence's `times` over.
// `posteriors` (all spans) and `edges` (the squares of all lengths, [argument][head], the root's own where both are the
// same) are filled unless they are empty.
Array<double> sum_heads(const Sentences &sentences, const Valence<const double> &weights, Vector<const double> span_weights,
                        Vector<const double> times, const Valence<double> &counts, Vector<double> posteriors,
                        Vector<double> edges) {
    Array<double> logarithms(sentences.count());
    Chart chart;
    Index first_span = 0, first_edge = 0;
    for (Index s = 0; s < sentences.count(); ++s) {
        const Index n = sentences.length(s);
        const int32_t *words = sentences.words.data + sentences.offsets[s];
        const auto weight = [&](Index i, Index j) {
            return span_weights.size() && j - i > 1 ? span_weights[first_span + span_number(i, j, n)] : 1.0;
        };
        chart.begin(words, n, weights);
        for (Index width = 1; width <= n; ++width)
            for (Index i = 0; i + width <= n; ++i) chart.fill(i, i + width, weight(i, i + width));
        double total = 0;
        const double *all = n ? chart.at(chart.whole, 0, n) : nullptr;
        for (Index h = 0; h < n; ++h) total += all[h] * weights.root[words[h]];
        logarithms[s] = n ? std::log(total) + chart.exponents.of[span_number(0, n, n)] * std::log(2.0) : 0.0;
        if (total > 0) {
            chart.begin_outside();
            for (Index h = 0; h < n; ++h) chart.out_whole[h] = weights.root[words[h]] / total;
            for (Index h = 0; h < n; ++h) counts.root[words[h]] += times[s] * all[h] * chart.out_whole[h];
            if (edges.size())
                for (Index h = 0; h < n; ++h) chart.edges[h * n + h] = all[h] * chart.out_whole[h];
            for (Index width = n; width >= 1; --width)
                for (Index i = 0; i + width <= n; ++i) {
                    const double posterior = chart.spread(i, i + width, weight(i, i + width));
                    if (posteriors.size()) posteriors[first_span + span_number(i, i + width, n)] = posterior;
                }
            count(chart, words, times[s], counts);
            if (edges.size()) std::copy(chart.edges.begin(), chart.edges.end(), edges.data + first_edge);
        }
        first_span += n_spans(n);
        first_edge += n * n;
    }
    return logarithms;
}

}  // namespace

void bind_heads(nb::module_ &module) {
    module.def("sum_heads", &sum_heads, "sentences"_a, "weights"_a, "span_weights"_a, "times"_a, "counts"_a, "posteriors"_a,
               "edges"_a, unlocked());
}

}  // namespace sapwood
