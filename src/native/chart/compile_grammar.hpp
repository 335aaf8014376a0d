// Compiles grammars for the passes.
#pragma once

#include <memory>

#include "chart/grammar.hpp"
#include "core/records.hpp"

namespace sapwood {

// A grammar with states as `CompiledGrammar` has it: fine rules by coarse rule (`fine_offsets`), the places of their
// parents and children in the nodes' vectors (F, 3), their numbers of states (F, 3), and their tensors (m_a, m_b, m_c).
template <class Real> struct FineArrays {
    Vector<const int64_t> vector_sizes, symbol_offsets;
    Vector<const Real> root;
    Vector<const int32_t> rule_parent;
    Vector<const int64_t> fine_offsets;
    Matrix<const int32_t> fine_places, fine_states;
    Vector<const int64_t> tensor_offsets;
    Vector<const Real> tensors;  // must outlive the grammar, which may refer to them

    static constexpr auto fields() {
        using A = FineArrays;
        return std::tuple{field("vector_sizes", &A::vector_sizes),
                          field("symbol_offsets", &A::symbol_offsets),
                          field("root", &A::root),
                          field("rule_parent", &A::rule_parent),
                          field("fine_offsets", &A::fine_offsets),
                          field("fine_places", &A::fine_places),
                          field("fine_states", &A::fine_states),
                          field("tensor_offsets", &A::tensor_offsets),
                          field("tensors", &A::tensors)};
    }
};

// Leave out weights whose absolute value is at most the share `least` of what their parent's state has in all, but where
// a tensor is taken whole.
template <class Real> std::shared_ptr<FineGrammar<Real>> compile_fine(const FineArrays<Real> &arrays, double least);

// Add rule tensors over finer states to `result`, tensors over groups of them. Rule r is `sizes[r]` from `offsets[r]`; its
// symbols' states begin at `places[r]` in `groups`, which has each state's number among the new ones of its symbol
// (negative: left out), and in `shares`, its part of the new one as a parent.
template <class Real>
void project_tensors(Matrix<const int64_t> places, Matrix<const int64_t> sizes, Vector<const int64_t> offsets,
                     Vector<const Real> tensors, Vector<const int64_t> groups, Vector<const double> shares,
                     Matrix<const int64_t> new_sizes, Vector<const int64_t> new_offsets, Vector<double> result);

}  // namespace sapwood
