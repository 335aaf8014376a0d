// Clusters of similar states, for a version of a grammar with fewer of them.
#pragma once

#include "core/views.hpp"

namespace sapwood {

// Put the states of each symbol into at most k groups of those that use the symbol's rules alike, as a parent and as a
// child; returns each state's group, numbered from 0 within its symbol. Rule r's tensor begins at `tensor_offsets[r]`;
// `occupancy` has the states' frequencies.
template <class Real>
Array<int64_t> cluster_states(Matrix<const int32_t> rules, Vector<const int64_t> state_offsets,
                              Vector<const int64_t> tensor_offsets, Vector<const Real> tensors, Vector<const double> occupancy,
                              Index k);

}  // namespace sapwood
