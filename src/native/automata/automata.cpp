// Entries of sparse tensors: `places` (entries, 3) are sorted, `values` (entries) what stands there.
#include <algorithm>
#include <numeric>
#include <vector>

#include "core/module.hpp"
#include "core/records.hpp"

namespace sapwood {
namespace {

// `SparseTensor` of `automata/tensors.py`.
struct Sparse {
    Matrix<const int32_t> places;
    Vector<const double> values;

    static constexpr auto fields() { return std::tuple{field("places", &Sparse::places), field("values", &Sparse::values)}; }
};

// Add `T(I, x, y)` of each row of `left` (rows, n_b) and `right` (rows, n_c) to `result` (rows, n_a).
void apply_sparse(const Sparse &tensor, Matrix<const double> left, Matrix<const double> right, Matrix<double> result) {
    for (Index row = 0; row < left.shape[0]; ++row) {
        const double *x = left.row(row), *y = right.row(row);
        double *target = result.row(row);
        for (Index entry = 0; entry < tensor.values.size(); ++entry) {
            const int32_t *place = tensor.places.row(entry);
            target[place[0]] += tensor.values[entry] * x[place[1]] * y[place[2]];
        }
    }
}

// Add `sum over k of T(i, j, k) M(k, d)` to `result` (n_a, n_b, d).
void contract_sparse(const Sparse &tensor, Matrix<const double> matrix, Cube<double> result) {
    const Index width = matrix.shape[1];
    for (Index entry = 0; entry < tensor.values.size(); ++entry) {
        const int32_t *place = tensor.places.row(entry);
        const double *row = matrix.row(place[2]), value = tensor.values[entry];
        double *target = &result(place[0], place[1], 0);
        for (Index d = 0; d < width; ++d) target[d] += value * row[d];
    }
}

// Fill `target` (rows, size) with some columns of `matrix`: those that `columns[begin:begin + size, side]` names.
void take_columns(Matrix<const double> matrix, Matrix<const int64_t> columns, Index begin, Index size, Index side,
                  double *target) {
    for (Index row = 0; row < matrix.shape[0]; ++row)
        for (Index p = 0; p < size; ++p) target[row * size + p] = matrix(row, columns(begin + p, side));
}

// Add `sum over j, k, j', k' of T(i, j, k) X(j, j') Y(k, k') T'(i', j', k')` to `result` (n_a, n_a'), with X and Y as
// `left` (n_b, n_b') and `right` (n_c, n_c').
//
// For each state `i`, whose entries are `rows[i] .. rows[i + 1] - 1`, the sums over `j` and `k` are found for all `pairs`
// (pairs, 2) of j' and k' of the other tensor, a chunk of them at a time, and then distributed to its entries, whose
// pairs `pair_of` names.
void sandwich_sparse(const Sparse &tensor, Vector<const int64_t> rows, Matrix<const double> left, Matrix<const double> right,
                     const Sparse &other, Matrix<const int64_t> pairs, Vector<const int64_t> pair_of, Matrix<double> result) {
    constexpr Index chunk = 512;  // the columns of two matrices should fit into a core's cache
    std::vector<Index> order(pair_of.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](Index x, Index y) { return pair_of[x] < pair_of[y]; });
    std::vector<double> sums(chunk), x(left.shape[0] * chunk), y(right.shape[0] * chunk);
    auto first = order.begin();
    for (Index begin = 0; begin < pairs.shape[0]; begin += chunk) {
        const Index size = std::min(chunk, pairs.shape[0] - begin);
        take_columns(left, pairs, begin, size, 0, x.data());
        take_columns(right, pairs, begin, size, 1, y.data());
        const auto last = std::find_if(first, order.end(), [&](Index e) { return pair_of[e] >= begin + size; });
        for (Index i = 0; i + 1 < rows.size(); ++i) {
            if (rows[i] == rows[i + 1]) continue;
            std::fill_n(sums.begin(), size, 0.0);
            for (Index entry = rows[i]; entry < rows[i + 1]; ++entry) {
                const int32_t *place = tensor.places.row(entry);
                const double value = tensor.values[entry];
                const double *one = x.data() + place[1] * size, *two = y.data() + place[2] * size;
                for (Index p = 0; p < size; ++p) sums[p] += value * one[p] * two[p];
            }
            for (auto entry = first; entry != last; ++entry)
                result(i, other.places(*entry, 0)) += sums[pair_of[*entry] - begin] * other.values[*entry];
        }
        first = last;
    }
}

// Add `sum over k, j', k' of H(i, k, j') Y(k, k') T'(i', j', k')` to `result` (n_a, n_a'), with Y as `right`.
void half_sandwich_sparse(Cube<const double> half, Matrix<const double> right, const Sparse &tensor, Matrix<double> result) {
    for (Index i = 0; i < half.shape[0]; ++i)
        for (Index entry = 0; entry < tensor.values.size(); ++entry) {
            const int32_t *place = tensor.places.row(entry);
            double total = 0;
            for (Index k = 0; k < half.shape[1]; ++k) total += half(i, k, place[1]) * right(k, place[2]);
            result(i, place[0]) += total * tensor.values[entry];
        }
}

}  // namespace

void bind_automata(nb::module_ &module) {
    module.def("apply_sparse", &apply_sparse, "tensor"_a, "left"_a, "right"_a, "result"_a, unlocked());
    module.def("contract_sparse", &contract_sparse, "tensor"_a, "matrix"_a, "result"_a, unlocked());
    module.def("sandwich_sparse", &sandwich_sparse, "tensor"_a, "rows"_a, "left"_a, "right"_a, "other"_a, "pairs"_a,
               "pair_of"_a, "result"_a, unlocked());
    module.def("half_sandwich_sparse", &half_sandwich_sparse, "half"_a, "right"_a, "tensor"_a, "result"_a, unlocked());
}

}  // namespace sapwood
