// What passes over observed trees and over forests share: weights, vectors, and steps on them.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/scaling.hpp"
#include "core/simd.hpp"
#include "grammar/layout.hpp"

namespace sapwood {

// A grammar's weights (`Weights` of `inference/estep/_shard_estep.py`): where they stand, and their values.
template <class T> struct Weights : Layout {
    Vector<const T> tensors;
    Vector<const double> root;  // (states)
    Vector<const int64_t> lexical_offsets;
    Vector<const T> lexical;  // scaled vectors of pairs
    Vector<const int32_t> lexical_exponent;

    static constexpr auto fields() {
        const std::tuple values{field("tensors", &Weights::tensors), field("root", &Weights::root),
                                field("lexical_offsets", &Weights::lexical_offsets), field("lexical", &Weights::lexical),
                                field("lexical_exponent", &Weights::lexical_exponent)};
        return std::tuple_cat(Layout::fields(), values);
    }

    [[gnu::noinline]] void check() const {
        Layout::check();
        check_shape("tensors", tensors, n_weights());
        check_shape("root", root, n_states());
        check_shape("lexical_offsets", lexical_offsets, lexical_exponent.size() + 1);
        check_shape("lexical", lexical, lexical_offsets[lexical_exponent.size()]);
    }

    const T *tensor(Index rule) const { return tensors.data + tensor_offsets[rule]; }
    // The most states of a symbol.
    Index widest() const {
        Index most = 0;
        for (Index s = 0; s + 1 < state_offsets.size(); ++s) most = std::max(most, state_offsets[s + 1] - state_offsets[s]);
        return most;
    }
};

// `NodeVectors` of `inference/estep/_shard_estep.py`.
template <class T> struct Vectors {
    Vector<const int64_t> offsets;
    Vector<T> inside;
    Vector<int32_t> exponent;
    Vector<T> outside;

    static constexpr auto fields() {
        return std::tuple{field("offsets", &Vectors::offsets), field("inside", &Vectors::inside),
                          field("exponent", &Vectors::exponent), field("outside", &Vectors::outside)};
    }

    // Raise ValueError if there are no vectors for so many nodes; outside vectors need not be there yet.
    [[gnu::noinline]] void check(Index nodes, bool with_outside = true) const {
        check_shape("offsets", offsets, nodes + 1);
        check_shape("inside", inside, offsets[nodes]);
        check_shape("exponent", exponent, nodes);
        if (with_outside) check_shape("outside", outside, offsets[nodes]);
    }

    T *in(Index node) const { return inside.data + offsets[node]; }
    T *out(Index node) const { return outside.data + offsets[node]; }
    Index size(Index node) const { return offsets[node + 1] - offsets[node]; }
};

// Copy a vector (n) scaled so that its largest absolute value lies in [1/2, 1); returns the exponent taken out.
template <class S, class T> int rescale(const S *source, T *target, Index n) {
    S largest = 0;
#pragma omp simd reduction(max : largest)
    for (Index x = 0; x < n; ++x) largest = std::max(largest, std::abs(source[x]));
    const int shift = binary_exponent(largest);
    const double scale = power_of_two(-shift);  // what is left of tiny numbers must not overflow in between
    for (Index x = 0; x < n; ++x) target[x] = static_cast<T>(source[x] * scale);
    return shift;
}

// Copy the (scaled) lexical vector of each pair to its leaves.
template <class Shard, class T>
void place_leaves(const Shard &shard, const Weights<T> &weights, const Vectors<T> &vectors) {
    for (Index q = 0; q < shard.pairs.size(); ++q) {
        const Index pair = shard.pairs[q];
        const T *vector = weights.lexical.data + weights.lexical_offsets[pair];
        const Index size = weights.lexical_offsets[pair + 1] - weights.lexical_offsets[pair];
        for (Index v = shard.pair_nodes[q]; v < shard.pair_nodes[q + 1]; ++v) {
            std::copy_n(vector, size, vectors.in(v));
            vectors.exponent[v] = weights.lexical_exponent[pair];
        }
    }
}

// Fill `meeting` (m_b m_c) with the tensor applied to the parent's vector `above` (m_a).
template <class T> void contract(const T *tensor, const T *above, Index m_a, T *meeting, Index size) {
    std::fill_n(meeting, size, T(0));
    Index a = 0;
    for (; a + 4 <= m_a; a += 4) axpy_four(meeting, above + a, tensor + a * size, size);
    for (; a < m_a; ++a) axpy(meeting, above[a], tensor + a * size, size);
}

}  // namespace sapwood
