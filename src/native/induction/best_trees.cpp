// The trees with the largest sums of scores: of spans for binary trees, of edges for projective dependency trees.
#include <limits>

#include "induction/induction.hpp"

namespace sapwood {
namespace {

constexpr double lowest = -std::numeric_limits<double>::infinity();

// Return the spans of two words and more of the best binary tree of each sentence (spans, 2), parents first.
//
// `scores` has all spans of sentences whose lengths are the differences of `offsets`. Of equal ones the tree that divides
// further left is taken.
Array<int32_t, 2> best_spans(Vector<const int64_t> offsets, Vector<const double> scores) {
    Index total = 0;
    for (Index s = 0; s + 1 < offsets.size(); ++s) total += std::max<Index>(offsets[s + 1] - offsets[s] - 1, 0);
    Array<int32_t, 2> result(total, 2);
    const auto found = result.view();
    std::vector<double> best;
    std::vector<Index> divided;
    std::vector<std::pair<Index, Index>> waiting;
    Index first = 0, row = 0;
    for (Index s = 0; s + 1 < offsets.size(); ++s) {
        const Index n = offsets[s + 1] - offsets[s];
        best.assign(n_spans(n), 0.0);
        divided.assign(n_spans(n), 0);
        for (Index width = 2; width <= n; ++width)
            for (Index i = 0; i + width <= n; ++i) {
                const Index j = i + width, span = span_number(i, j, n);
                double most = lowest;
                for (Index m = i + 1; m < j; ++m) {
                    const double sum = best[span_number(i, m, n)] + best[span_number(m, j, n)];
                    if (sum > most || m == i + 1) most = sum, divided[span] = m;
                }
                best[span] = most + scores[first + span];
            }
        if (n > 1) waiting.assign(1, {0, n});
        while (!waiting.empty()) {
            const auto [i, j] = waiting.back();
            waiting.pop_back();
            found(row, 0) = static_cast<int32_t>(i), found(row, 1) = static_cast<int32_t>(j), ++row;
            const Index m = divided[span_number(i, j, n)];
            if (j - m > 1) waiting.emplace_back(m, j);
            if (m - i > 1) waiting.emplace_back(i, m);
        }
        first += n_spans(n);
    }
    return result;
}

// Return the head of each word in the best projective tree of its sentence, -1 for the root's (Eisner 1996).
//
// `scores` has for each sentence the squares of its length: `[argument][head]`, and the root's where both are the same.
Array<int32_t> best_heads(Vector<const int64_t> offsets, Vector<const double> scores) {
    enum Kind { to_right, to_left, both };
    Array<int32_t> heads(offsets[offsets.size() - 1]);
    std::vector<double> right, left, right_edge, left_edge;
    std::vector<Index> at_right, at_left, at_both;
    struct Part {
        Kind kind;
        Index i, j;
    };
    std::vector<Part> waiting;
    Index first = 0;
    for (Index s = 0; s + 1 < offsets.size(); ++s) {
        const Index n = offsets[s + 1] - offsets[s];
        int32_t *own = heads.data.get() + offsets[s];
        const double *score = scores.data + first;
        first += n * n;
        if (!n) continue;
        for (auto *values : {&right, &left, &right_edge, &left_edge}) values->assign(n * n, 0.0);
        for (auto *values : {&at_right, &at_left, &at_both}) values->assign(n * n, 0);
        for (Index width = 1; width < n; ++width)
            for (Index i = 0; i + width < n; ++i) {
                const Index j = i + width, cell = i * n + j;
                double most = lowest;
                for (Index m = i; m < j; ++m)
                    if (const double sum = right[i * n + m] + left[(m + 1) * n + j]; sum > most || m == i)
                        most = sum, at_both[cell] = m;
                right_edge[cell] = most + score[j * n + i];
                left_edge[cell] = most + score[i * n + j];
                most = lowest;
                for (Index m = i + 1; m <= j; ++m)
                    if (const double sum = right_edge[i * n + m] + right[m * n + j]; sum > most || m == i + 1)
                        most = sum, at_right[cell] = m;
                right[cell] = most;
                most = lowest;
                for (Index m = i; m < j; ++m)
                    if (const double sum = left[i * n + m] + left_edge[m * n + j]; sum > most || m == i)
                        most = sum, at_left[cell] = m;
                left[cell] = most;
            }
        Index top = 0;
        double most = lowest;
        for (Index h = 0; h < n; ++h)
            if (const double sum = left[h] + score[h * n + h] + right[h * n + n - 1]; sum > most || h == 0) most = sum, top = h;
        own[top] = -1;
        waiting = {{to_left, 0, top}, {to_right, top, n - 1}};
        while (!waiting.empty()) {
            const auto [kind, i, j] = waiting.back();
            waiting.pop_back();
            if (i == j) continue;
            if (kind == to_right) {
                const Index m = at_right[i * n + j];
                own[m] = static_cast<int32_t>(i);
                waiting.push_back({both, i, m}), waiting.push_back({to_right, m, j});
            } else if (kind == to_left) {
                const Index m = at_left[i * n + j];
                own[m] = static_cast<int32_t>(j);
                waiting.push_back({to_left, i, m}), waiting.push_back({both, m, j});
            } else {
                const Index m = at_both[i * n + j];
                waiting.push_back({to_right, i, m}), waiting.push_back({to_left, m + 1, j});
            }
        }
    }
    return heads;
}

}  // namespace

void bind_best_trees(nb::module_ &module) {
    module.def("best_spans", &best_spans, "offsets"_a, "scores"_a, unlocked());
    module.def("best_heads", &best_heads, "offsets"_a, "scores"_a, unlocked());
}

}  // namespace sapwood
