// Products of the entries of sparse matrices; least squares over the simplex are in `simplex.cpp`.
#include "core/module.hpp"
#include "core/views.hpp"

namespace sapwood {
namespace {

// Return for each entry `(f, g)` of a sparse matrix the product of `left[f]` and `right[g]`.
template <class I>
Array<double> entry_products(Vector<const I> indptr, Vector<const I> indices, Matrix<const double> left,
                             Matrix<const double> right) {
    Array<double> result(indices.size());
    const Index m = left.shape[1];
    for (Index f = 0; f + 1 < indptr.size(); ++f) {
        const double *own = left.row(f);
        for (Index at = indptr[f]; at < indptr[f + 1]; ++at) {
            const double *other = right.row(indices[at]);
            double total = 0;
#pragma omp simd reduction(+ : total)
            for (Index h = 0; h < m; ++h) total += own[h] * other[h];
            result[at] = total;
        }
    }
    return result;
}

}  // namespace

void bind_anchor_nmf(nb::module_ &module) {
    module.def("entry_products", &entry_products<int32_t>, "indptr"_a, "indices"_a, "left"_a, "right"_a, unlocked());
    module.def("entry_products", &entry_products<int64_t>, "indptr"_a, "indices"_a, "left"_a, "right"_a, unlocked());
}

}  // namespace sapwood
