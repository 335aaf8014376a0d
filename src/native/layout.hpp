// Rules with states as `TensorGrammar` lays them out.
#pragma once

#include "records.hpp"

namespace sapwood {

// The symbols and rules, and where their weights stand. `LatentWeights` is such an object.
struct Layout {
    Matrix<const int32_t> rules;            // (rules, 3): a -> b c
    Vector<const int64_t> state_offsets;    // (symbols + 1): where each symbol's states begin
    Vector<const int64_t> tensor_offsets;   // (rules + 1): where each rule's tensor begins

    static constexpr auto fields() {
        return std::tuple{field("rules", &Layout::rules), field("state_offsets", &Layout::state_offsets),
                          field("tensor_offsets", &Layout::tensor_offsets)};
    }

    Index n_rules() const { return rules.shape[0]; }
    Index first_state(Index rule, Index side) const { return state_offsets[rules(rule, side)]; }
    // The number of states of the parent (side 0) or of a child (1, 2).
    Index states(Index rule, Index side) const {
        const Index symbol = rules(rule, side);
        return state_offsets[symbol + 1] - state_offsets[symbol];
    }
    // The size of a tensor's row, one state of the parent: m_b m_c.
    Index row_size(Index rule) const { return states(rule, 1) * states(rule, 2); }
};

}  // namespace sapwood
