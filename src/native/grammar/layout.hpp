// Rules with states as `TensorGrammar` lays them out.
#pragma once

#include "core/records.hpp"

namespace sapwood {

// The symbols and rules, and where their weights stand. `LatentWeights` is such an object.
struct Layout {
    Matrix<const int32_t> rules;           // (rules, 3): a -> b c
    Vector<const int64_t> state_offsets;   // (symbols + 1): where each symbol's states begin
    Vector<const int64_t> tensor_offsets;  // (rules + 1): where each rule's tensor begins

    static constexpr auto fields() {
        return std::tuple{field("rules", &Layout::rules), field("state_offsets", &Layout::state_offsets),
                          field("tensor_offsets", &Layout::tensor_offsets)};
    }

    Index n_rules() const { return rules.shape[0]; }
    Index n_states() const { return state_offsets[state_offsets.size() - 1]; }
    Index n_weights() const { return tensor_offsets[n_rules()] - tensor_offsets[0]; }
    // Raise ValueError if an array has no room for the tensors of rules `first .. last - 1`; offsets may begin below zero.
    [[gnu::noinline]] void check_rules(Index first, Index last, Index size) const {
        check_range(first, last, n_rules());
        if (first < last) check_range(tensor_offsets[first], tensor_offsets[last], size);
    }
    // Raise ValueError if the arrays' shapes differ.
    [[gnu::noinline]] void check() const {
        check_shape("rules", rules, any_size, 3);
        check_shape("tensor_offsets", tensor_offsets, n_rules() + 1);
        if (state_offsets.size() == 0) check_shape("state_offsets", state_offsets, 1);
    }
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
