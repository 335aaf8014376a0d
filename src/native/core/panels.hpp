// Matrix products with weights that are laid out once and used for every sentence.
#pragma once

#include <memory>
#include <new>

#include "core/views.hpp"

namespace sapwood {

// Whether vectors have 64 bytes: this processor has AVX-512, and the variant of the kernels is one for AVX2.
bool has_wide_vectors();

// A matrix (depth, columns) of weights in panels of sixteen columns, one behind the other, each (depth, 16); columns that
// are missing in the last one are zero.
//
// Each element of a product is a sum over `depth` from the first term to the last, whatever the width of vectors: where
// multiplication and addition are fused, as in the variant `avx2`, wider vectors give the same bytes.
class Panels {
  public:
    static constexpr Index width = 16;

    Panels() = default;
    // Element (k, c) is `weights[k * row + c * column]`.
    Panels(const float *weights, Index depth, Index columns, Index row, Index column);
    Panels(const float *weights, Index depth, Index columns) : Panels(weights, depth, columns, columns, 1) {}

    // Fill `out` (rows, columns) with the product of `x` (rows, depth) and this matrix plus `bias` (columns, or null).
    void multiply(const float *x, Index rows, const float *bias, float *out) const {
        multiply({x, data.get(), bias, out, depth, 1, depth, columns, 0, false}, rows, has_wide_vectors());
    }

    // Some rows of `x`, whose element (r, k) is `x[r * row + k * column]`, the panel of the columns from `first` on, and what
    // is added to the products: a row `bias`, or (if `add`) what `out` has.
    struct Tile {
        const float *x, *panel, *bias;
        float *out;
        Index row, column, depth, columns, first;
        bool add;

        // Write sixteen sums of row `r`, or as many as there are columns.
        void store(Index r, const float *sums, int number = 0) const {
            const Index begin = first + number * width, size = columns - begin < width ? columns - begin : width;
            float *target = out + r * columns + begin;
            if (add)
                for (Index c = 0; c < size; ++c) target[c] += sums[c];
            else
                for (Index c = 0; c < size; ++c) target[c] = sums[c] + (bias ? bias[begin + c] : 0.0f);
        }
    };
    // The product of all rows from `x` on: a tile at a time, in vectors of 64 bytes if `wide`.
    void multiply(Tile tile, Index rows, bool wide) const;

    const float *begin() const { return data.get(); }

  private:
    struct Release {
        void operator()(float *data) const { ::operator delete[](data, std::align_val_t{64}); }
    };
    Index depth = 0, columns = 0;
    std::unique_ptr<float[], Release> data;

    Index n_panels() const { return (columns + width - 1) / width; }
};

}  // namespace sapwood
