// The first, coarsest pass: a one-state grammar over all spans.
#pragma once

#include <vector>

#include "chart/grammar.hpp"
#include "core/memory.hpp"

namespace sapwood {

// What the coarse pass may do in a cell: anything, nothing, or the symbols of a row of `allowed`. If `prune_cells` is set, the
// grammar may prune cells; where phrases are asked for it does not, of which it knows nothing.
struct Constraints {
    Vector<const int32_t> cells;
    Matrix<const bool> allowed;
    bool prune_cells = false;
    // Whether they are about symbols, and not only about cells that are closed because nothing is expected there.
    bool name_symbols() const { return allowed.shape[0] > 0; }
    // Raise ValueError if they are not about the cells of n words and the symbols of a grammar.
    [[gnu::noinline]] void check(Index n, Index n_symbols) const {
        if (cells.size() > 0) check_shape("cells", cells, n * (n + 1) / 2);
        if (name_symbols()) check_shape("allowed", allowed, any_size, n_symbols);
    }
    int32_t of(Index cell) const { return cells.size() > 0 ? cells[cell] : free_cell; }
};

// The chart of the coarse pass, and the memory that it works in.
//
// Charts are triangular, cell (i, j) at j (j - 1) / 2 + i. Only symbols that occur take room: those that begin at i have
// slots there, `start_slot (n, S)`, in the order of `starting (n, S)`; those that end at j have slots `end_slot (n + 1,
// S)`. Inside values stand twice, by start and by end, so that the splits of a rule are neighbours in memory; the bit
// sets `ends (n, S, W)` and `starts (n + 1, S, W)` say which there are. Values of a cell are scaled by a power of two so
// that the largest lies in [1/2, 1); `exponent` keeps it. Outside values are stored times the inverse scale and divided
// by the sentence's probability: a stored inside times a stored outside value is the posterior, and neither over- nor
// underflows.
template <class Real> struct CoarseMemory {
    Buffer<Real> by_start, by_end, outside_start, outside_end, left_merit, right_merit, rows, merits;
    Buffer<int64_t> exponent, left_exponent, right_exponent, part_offsets;
    Buffer<uint64_t> ends, starts;
    Buffer<int32_t> starting, n_starting, start_slot, end_slot, node_number, part_rule, place, ending;
    Buffer<Real> part, sums, pair_total, pair_merit, used_value, row, boundary_merit, limit, divisor, factor, weights, value,
        here;
    Buffer<int32_t> splits, touched, pair_code, used_rule, used_parent, chosen;
    Buffer<int64_t> pair_first, pair_last, group_cell, edge_offsets;
    Buffer<int32_t> group_rule, split;
    Buffer<double> words, tags, next_tags, forward;
    Buffer<int32_t> best_tag, kinds;
    Buffer<float> cell_score;
    int64_t rules_applied = 0;  // by all inside passes so far
    Budget *budget = nullptr;
    std::size_t forest_bytes = 0;

    template <class Visit> void for_each_buffer(Visit visit) {
        for (auto *b : {&by_start,       &by_end, &outside_start, &outside_end, &left_merit, &right_merit, &rows,
                        &merits,         &part,   &sums,          &pair_total,  &pair_merit, &used_value,  &row,
                        &boundary_merit, &limit,  &divisor,       &factor,      &weights,    &value,       &here})
            visit(*b);
        for (auto *b :
             {&exponent, &left_exponent, &right_exponent, &part_offsets, &pair_first, &pair_last, &group_cell, &edge_offsets})
            visit(*b);
        for (auto *b : {&starting, &n_starting, &start_slot, &end_slot, &node_number, &part_rule, &place, &ending, &splits,
                        &touched, &pair_code, &used_rule, &used_parent, &chosen, &group_rule, &split, &best_tag, &kinds})
            visit(*b);
        for (auto *b : {&ends, &starts}) visit(*b);
        for (auto *b : {&words, &tags, &next_tags, &forward}) visit(*b);
        visit(cell_score);
    }
};

// Fill `forest` with the edges whose posterior exceeds the threshold; returns false if there is no parse.
template <class Real>
bool coarse_forest(const CoarseGrammar &grammar, const std::vector<const Leaf *> &leaves, double threshold,
                   const Constraints &constraints, CoarseMemory<Real> &memory, Forest &forest);

// An entry of the chart: a symbol over words i .. j - 1 with its inside value, scaled by 2^exponent, and its posterior.
struct Entry {
    int32_t i, j, symbol;
    double inside;
    int64_t exponent;
    double posterior;
};

// The same, and all entries of the chart, of which there are none without a parse; returns
// how often the inside pass was run.
template <class Real>
int coarse_entries(const CoarseGrammar &grammar, const std::vector<const Leaf *> &leaves, double threshold,
                   CoarseMemory<Real> &memory, Forest &forest, std::vector<Entry> &entries);

// A number times a power of two.
struct Scaled {
    double value = 0;
    int64_t exponent = 0;
};

// Figures of merit of symbols at boundaries: fills `left_merit (n + 1, S)`, `right_merit (n + 1, S)` and their exponents, so
// that an inside value of span (i, j) times both estimates its probability together with all words. Returns the
// sentence's probability under the Markov model over tags. If `tagged`, `best_tag (n)` gets the most probable tag of each
// word by that model.
template <class Real>
Scaled estimate_merits(const CoarseGrammar &grammar, const std::vector<const Leaf *> &leaves, bool tagged,
                       CoarseMemory<Real> &memory);

}  // namespace sapwood
