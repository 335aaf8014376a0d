// Words as the passes see them: lexical weights, coarse and fine.
#pragma once

#include "chart/grammar.hpp"
#include "core/records.hpp"

namespace sapwood {

using Leaves = std::vector<const Leaf *>;

// Where a row of lexical weights over preterminal states goes to; as `CompiledGrammar` has it.
struct LeafArrays {
    Vector<const int64_t> symbol_offsets;  // (S + 1): where each coarse symbol's states begin
    Vector<const int64_t> row_order;       // the place in the row of every preterminal's state by coarse symbol
    Vector<const double> leaf_average;     // each state's part in its coarse symbol's average, in the order of the row

    static constexpr auto fields() {
        using A = LeafArrays;
        return std::tuple{field("symbol_offsets", &A::symbol_offsets), field("row_order", &A::row_order),
                          field("leaf_average", &A::leaf_average)};
    }
};

// A coarser version of a grammar; as `Level` has it.
template <class Real> struct LevelArrays {
    Vector<const int64_t> target;  // (states): where the finer states' weights are added up; negative: nowhere
    Vector<const Real> shares;     // (states): how much of each

    static constexpr auto fields() {
        using A = LevelArrays;
        return std::tuple{field("target", &A::target), field("shares", &A::shares)};
    }
};

// A word with the weights of `row`, in single precision or not. Coarse weights are averages, at least the share `floor`
// of the largest where the word can have the symbol at all.
Leaf make_leaf(const LeafArrays &arrays, Vector<const double> row, bool single, double floor, bool fixed);

// Add a level's row, made from the first one. The states of coarse symbols begin at `fine_offsets` (S + 1) in the grammar,
// and at `level_offsets` (S + 1) in the level.
template <class Real>
void add_level(Leaf &leaf, const LevelArrays<Real> &level, Vector<const int64_t> fine_offsets,
               Vector<const int64_t> level_offsets);

// The weights of a symbol's states in row `number`; empty if the word cannot have the symbol.
Array<double> leaf_vector(const Leaf &leaf, Index number, int32_t symbol);

// A leaf with the first rows of several, then the other rows of the first, and coarse weights of its own.
Leaf join_leaves(const Leaves &members, Vector<const int32_t> symbols, Vector<const double> values, bool fixed);

}  // namespace sapwood
