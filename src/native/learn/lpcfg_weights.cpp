// Rule tensors whose symbols have many states: normalise, smooth, split, merge, and merging's cost.
//
// Tensors stand one behind the other as in `TensorGrammar`: rule `r` is (m_a, m_b, m_c) from `tensor_offsets[r]`.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/module.hpp"
#include "grammar/layout.hpp"

namespace sapwood {
namespace {

template <class T> double sum(const T *values, Index n) {
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (Index i = 0; i < n; ++i) total += values[i];
    return total;
}

// Add the sums of tensors `first .. last - 1` over their children's states to `totals` (states) of the parents.
template <class T>
void row_totals(const Layout &layout, Index first, Index last, Vector<const T> counts, Vector<double> totals) {
    layout.check();
    check_range(first, last, layout.n_rules());
    check_shape("counts", counts, layout.n_weights());
    check_shape("totals", totals, layout.n_states());
    for (Index r = first; r < last; ++r) {
        const Index size = layout.row_size(r);
        const T *row = counts.data + layout.tensor_offsets[r];
        for (Index a = 0; a < layout.states(r, 0); ++a, row += size) totals[layout.first_state(r, 0) + a] += sum(row, size);
    }
}

// Set weights below `least` to zero and divide rows by what is left.
template <class T> void drop_small(const Layout &layout, double least, Vector<T> tensors) {
    layout.check();
    check_shape("tensors", tensors, layout.n_weights());
    for (Index x = 0; x < tensors.size(); ++x)
        if (tensors[x] < least) tensors[x] = 0;
    std::vector<double> totals(layout.n_states());
    row_totals<T>(layout, 0, layout.n_rules(), tensors, {totals.data(), {static_cast<Index>(totals.size())}});
    for (Index r = 0; r < layout.n_rules(); ++r) {
        const Index size = layout.row_size(r);
        T *row = tensors.data + layout.tensor_offsets[r];
        for (Index a = 0; a < layout.states(r, 0); ++a, row += size) {
            const double total = totals[layout.first_state(r, 0) + a];
            if (total > 0)
                for (Index y = 0; y < size; ++y) row[y] = static_cast<T>(row[y] / total);
        }
    }
}

// Fill `mean` (m_b m_c) with the mean of a tensor's rows, those that have a total each divided by it.
void mean_row(const double *tensor, const double *totals, Index m_a, Index size, Index alive, double *mean) {
    std::fill_n(mean, size, 0.0);
    for (Index a = 0; a < m_a; ++a) {
        if (!(totals[a] > 0)) continue;
        const double factor = 1 / (totals[a] * alive);
        const double *row = tensor + a * size;
        for (Index y = 0; y < size; ++y) mean[y] += factor * row[y];
    }
}

// Fill `result` with the rows of tensors `first .. last - 1` divided by their totals, drawn to the mean of the rule's rows.
//
// With `smoothing` s a row becomes `(1 - s) row + s mean`; a row without a total becomes the mean of the others. Rows
// that sum to one over all rules still do, but for weights below `least`, which are dropped: they would end as numbers
// too small for single precision, with which processors are slow.
void normalise_and_smooth(const Layout &layout, Index first, Index last, Vector<const double> counts,
                          Vector<const double> totals, double smoothing, double half_count, double least,
                          Vector<float> result) {
    layout.check();
    check_range(first, last, layout.n_rules());
    check_shape("counts", counts, layout.n_weights());
    check_shape("totals", totals, layout.n_states());
    check_shape("result", result, layout.n_weights());
    std::vector<double> mean;
    for (Index r = first; r < last; ++r) {
        const Index m_a = layout.states(r, 0), size = layout.row_size(r);
        const double *tensor = counts.data + layout.tensor_offsets[r];
        const double *own = totals.data + layout.first_state(r, 0);
        const Index alive = std::count_if(own, own + m_a, [](double total) { return total > 0; });
        mean.resize(size);
        const bool drawing = alive > 0 && (alive < m_a || (smoothing > 0 && alive > 1));
        if (drawing) mean_row(tensor, own, m_a, size, alive, mean.data());
        for (Index a = 0; a < m_a; ++a) {
            const bool live = own[a] > 0;
            const double amount = half_count > 0 ? smoothing * half_count / (half_count + own[a]) : smoothing;
            const double drawn = live ? (alive > 1 ? amount : 0) : (alive > 0 ? 1 : 0);
            const double keep = live ? (1 - drawn) / own[a] : 0;
            const double *row = tensor + a * size;
            float *filled = result.data + layout.tensor_offsets[r] + a * size;
            if (drawn > 0) {
                for (Index y = 0; y < size; ++y) {
                    const double value = keep * row[y] + drawn * mean[y];
                    filled[y] = value >= least ? static_cast<float>(value) : 0;
                }
            } else {
                for (Index y = 0; y < size; ++y) {
                    const double value = keep * row[y];
                    filled[y] = value >= least ? static_cast<float>(value) : 0;
                }
            }
        }
    }
}

// Fill `result` with the tensors of rules `first .. last - 1` in the layout `split`, over states made of those of `old`.
//
// State `z` comes from state number `origin[z]` of its symbol and takes `share[z]` of it as a child; each weight is
// multiplied by its entry of `noise`, which is for these rules alone.
void split_tensors(const Layout &old, Vector<const float> tensors, const Layout &split, Index first, Index last,
                   Vector<const int64_t> origin, Vector<const double> share, Vector<const double> noise,
                   Vector<double> result) {
    old.check();
    split.check();
    check_range(first, last, split.n_rules());
    check_shape("rules", old.rules, split.n_rules(), 3);
    check_shape("tensors", tensors, old.n_weights());
    check_shape("origin", origin, split.n_states());
    check_shape("share", share, split.n_states());
    check_shape("result", result, split.n_weights());
    const Index begin = split.tensor_offsets[first];
    check_shape("noise", noise, split.tensor_offsets[last] - begin);
    for (Index r = first; r < last; ++r) {
        const Index a0 = split.first_state(r, 0), b0 = split.first_state(r, 1), c0 = split.first_state(r, 2);
        const Index n_a = split.states(r, 0), n_b = split.states(r, 1), n_c = split.states(r, 2);
        const Index m_b = old.states(r, 1), m_c = old.states(r, 2);
        Index at = split.tensor_offsets[r];
        for (Index a = 0; a < n_a; ++a)
            for (Index b = 0; b < n_b; ++b) {
                const float *row = tensors.data + old.tensor_offsets[r] + (origin[a0 + a] * m_b + origin[b0 + b]) * m_c;
                for (Index c = 0; c < n_c; ++c, ++at)
                    result[at] = row[origin[c0 + c]] * share[b0 + b] * share[c0 + c] * noise[at - begin];
            }
    }
}

// Add counts over the states of `old` to `result`, given zeroed: state `z` is now number `new_state[z]` of its symbol.
void merge_tensors(const Layout &old, Vector<const double> counts, const Layout &merged, Vector<const int64_t> new_state,
                   Vector<double> result) {
    old.check();
    merged.check();
    check_shape("rules", merged.rules, old.n_rules(), 3);
    check_shape("counts", counts, old.n_weights());
    check_shape("new_state", new_state, old.n_states());
    check_shape("result", result, merged.n_weights());
    for (Index r = 0; r < old.n_rules(); ++r) {
        const Index a0 = old.first_state(r, 0), b0 = old.first_state(r, 1), c0 = old.first_state(r, 2);
        const Index n_b = merged.states(r, 1), n_c = merged.states(r, 2);
        Index at = old.tensor_offsets[r];
        for (Index a = 0; a < old.states(r, 0); ++a)
            for (Index b = 0; b < old.states(r, 1); ++b) {
                double *row = result.data + merged.tensor_offsets[r] + (new_state[a0 + a] * n_b + new_state[b0 + b]) * n_c;
                for (Index c = 0; c < old.states(r, 2); ++c, ++at) row[new_state[c0 + c]] += counts[at];
            }
    }
}

// Add to `losses` (states) the log-likelihood lost, node by node, if a state were merged with the one behind it.
//
// `twin` (states) says for which states; `frequency` (states) how often each is expected (Petrov et al. 2006, section
// 2.2). `symbol` (nodes), `offsets` (nodes + 1) and vectors are those of `NodeVectors`. In trees each node is `certain`;
// in forests inside times outside is its posterior, and trees without it lose nothing. Losses count `weight` times.
void merge_losses(Vector<const int32_t> symbol, Vector<const int64_t> state_offsets, Vector<const bool> twin,
                  Vector<const double> frequency, Vector<const int64_t> offsets, Vector<const float> inside,
                  Vector<const float> outside, bool certain, double weight, Vector<double> losses) {
    const Index states = losses.size();
    check_shape("twin", twin, states);
    check_shape("frequency", frequency, states);
    check_shape("offsets", offsets, symbol.size() + 1);
    check_shape("inside", inside, offsets[symbol.size()]);
    check_shape("outside", outside, offsets[symbol.size()]);
    std::vector<double> products;
    for (Index v = 0; v < symbol.size(); ++v) {
        const Index base = state_offsets[symbol[v]], size = offsets[v + 1] - offsets[v];
        const float *ours = inside.data + offsets[v], *theirs = outside.data + offsets[v];
        products.resize(size);
        for (Index x = 0; x < size; ++x) products[x] = static_cast<double>(ours[x]) * theirs[x];
        double total = 0;
        for (Index x = 0; x < size; ++x) total += products[x];
        if (!(total > 0)) continue;
        for (Index x = 0; x + 1 < size; ++x) {
            const double one = frequency[base + x], other = frequency[base + x + 1];
            if (!twin[base + x] || one + other <= 0) continue;
            const double mean = (one * ours[x] + other * ours[x + 1]) / (one + other);
            const double merged = mean * (static_cast<double>(theirs[x]) + theirs[x + 1]);
            const double whole = certain ? total : 1;
            const double left = (whole - (products[x] + products[x + 1]) + merged) / whole;
            losses[base + x] -= weight * std::log(std::max(left, 1e-300));
        }
    }
}

}  // namespace

void bind_lpcfg(nb::module_ &module) {
    module.def("row_totals", &row_totals<float>, "layout"_a, "first"_a, "last"_a, "counts"_a, "totals"_a, unlocked());
    module.def("row_totals", &row_totals<double>, "layout"_a, "first"_a, "last"_a, "counts"_a, "totals"_a, unlocked());
    module.def("drop_small", &drop_small<float>, "layout"_a, "least"_a, "tensors"_a, unlocked());
    module.def("drop_small", &drop_small<double>, "layout"_a, "least"_a, "tensors"_a, unlocked());
    module.def("normalise_and_smooth", &normalise_and_smooth, "layout"_a, "first"_a, "last"_a, "counts"_a, "totals"_a,
               "smoothing"_a, "half_count"_a, "least"_a, "result"_a, unlocked());
    module.def("split_tensors", &split_tensors, "old"_a, "tensors"_a, "split"_a, "first"_a, "last"_a, "origin"_a, "share"_a,
               "noise"_a, "result"_a, unlocked());
    module.def("merge_tensors", &merge_tensors, "old"_a, "counts"_a, "merged"_a, "new_state"_a, "result"_a, unlocked());
    module.def("merge_losses", &merge_losses, "symbol"_a, "state_offsets"_a, "twin"_a, "frequency"_a, "offsets"_a, "inside"_a,
               "outside"_a, "certain"_a, "weight"_a, "losses"_a, unlocked());
}

}  // namespace sapwood
