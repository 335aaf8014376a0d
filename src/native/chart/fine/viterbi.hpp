// The single most probable derivation, states included.
#pragma once

#include <vector>

#include "chart/grammar.hpp"

namespace sapwood {

// Return the states of the best derivation's nodes in preorder, as places in rows over all states by coarse symbol, and
// whether each node is a leaf; both empty if there is none. `offsets (nodes + 1)` and `inside` are the forest's vectors,
// of which those of leaves count.
template <class Real>
std::pair<Array<int64_t>, Array<bool>> viterbi(const FineGrammar<Real> &grammar, const Forest &forest, Index n_interminals,
                                               Vector<const int64_t> offsets, Vector<const Real> inside);

}  // namespace sapwood
