// The coarse pass over one sentence: what its inside and its outside half share.
#pragma once

#include "chart/coarse/coarse.hpp"
#include "core/scaling.hpp"
#include "core/simd.hpp"

namespace sapwood {

constexpr int64_t lowest_exponent = -(int64_t{1} << 40);
// The beam of the inside pass as a multiple of the threshold.
constexpr double beam_factor = 10.0;
// Rules with a smaller share than this of what is worth keeping are passed over.
constexpr double minor_share = 0.1;

template <class Real> class CoarsePass {
  public:
    CoarsePass(const CoarseGrammar &grammar, const std::vector<const Leaf *> &leaves, double threshold,
               const Constraints &constraints, CoarseMemory<Real> &memory)
        : g(grammar), leaves(leaves), n(static_cast<Index>(leaves.size())), n_symbols(grammar.n_symbols),
          n_cells(n * (n + 1) / 2), n_words((n >> 6) + 1), stride(round_up_to_lanes(grammar.n_symbols)), threshold(threshold),
          beam(beam_factor * threshold), lowest(threshold > 0 ? -60 : -1074), constraints(constraints), m(memory) {
        const std::size_t size = static_cast<std::size_t>(n_cells) * n_symbols;
        by_start = m.by_start.acquire(size);
        by_end = m.by_end.acquire(size);
        outside_start = m.outside_start.acquire(size);
        outside_end = m.outside_end.acquire(size);
        exponent = m.exponent.acquire(n_cells);
        ends = m.ends.acquire((n + 1) * n_symbols * n_words);
        starts = m.starts.acquire((n + 1) * n_symbols * n_words);
        starting = m.starting.acquire(n * n_symbols);
        n_starting = m.n_starting.acquire(n);
        start_slot = m.start_slot.acquire((n + 1) * n_symbols);
        end_slot = m.end_slot.acquire((n + 1) * n_symbols);
        part_offsets = m.part_offsets.acquire(n_cells + 1);
        factor = m.factor.acquire(n + 1);
        rule_weight = g.weights<Real>();
    }

    bool run(Forest &forest);

    void list_entries(std::vector<Entry> &entries) const;

    int rounds = 0;

  private:
    const CoarseGrammar &g;
    const std::vector<const Leaf *> &leaves;
    const Index n, n_symbols, n_cells, n_words, stride;
    const double threshold, beam;
    const int64_t lowest;
    const Constraints &constraints;
    CoarseMemory<Real> &m;
    Real *by_start, *by_end, *outside_start, *outside_end, *left_merit, *right_merit, *factor;
    const Real *rule_weight;
    int64_t *exponent, *left_exponent, *right_exponent, *part_offsets;
    uint64_t *ends, *starts;
    int32_t *starting, *n_starting, *start_slot, *end_slot;
    double least = 0;
    int64_t least_exponent = 0;
    Index n_groups = 0, n_edges = 0;
    const float *cell_score = nullptr;  // cells below the limit are closed, if there are scores
    float limit_of_cells = 0;

    // Scratch of the inside pass, for one end j or one cell.
    int32_t *place, *ending, *splits, *touched, *pair_code, *used_rule, *used_parent;
    Real *rows, *merits, *sums, *weights, *pair_total, *pair_merit, *used_value, *row, *boundary_merit, *limit, *divisor;
    int64_t *pair_first, *pair_last;
    Index n_ending = 0, n_pairs = 0, n_used = 0, n_touched = 0, n_parts = 0;

    // Where `by_start` keeps end 0 of the run for a slot of start i (its first real end is i + 1).
    Index start_run(Index i, Index slot) const { return n_symbols * (i * n - i * (i - 1) / 2) + slot * (n - i) - i - 1; }
    // Where `by_end` keeps start 0 of the run for a slot of end j.
    Index end_run(Index j, Index slot) const { return n_symbols * (j * (j - 1) / 2) + slot * j; }
    uint64_t *end_set(Index i, Index slot) const { return ends + (i * n_symbols + slot) * n_words; }
    uint64_t *start_set(Index j, Index slot) const { return starts + (j * n_symbols + slot) * n_words; }
    static bool holds(const uint64_t *set, Index position) { return set[position >> 6] >> (position & 63) & 1; }

    // Score all cells by the words around them.
    void prune_cells();

    void prepare();

    // Fill the chart; returns the sentence's scaled probability.
    //
    // An entry's inside value times how well its symbol fits at both boundaries is its merit, an estimate of its
    // posterior but for a factor. Kept are entries whose merit is at least `least 2^least_exponent` and at least `beam`
    // times the cell's largest.
    double inside();

    void fill_cell(Index i, Index j);

    // Bring a word's largest weight into [1/2, 1): what lies far below it must not be too small for a number.
    int64_t scale_leaf(const Leaf &leaf);

    // Fill the scales of a cell's splits relative to the largest, whose exponent is returned.
    int64_t scale_splits(Index i, Index j) {
        int64_t reference = lowest_exponent;
        for (Index k = i + 1; k < j; ++k) reference = std::max(reference, exponent[cell_of(i, k)] + exponent[cell_of(k, j)]);
        if (reference < lowest_exponent / 2) return reference;
        for (Index k = i + 1; k < j; ++k) {
            const int64_t below = exponent[cell_of(i, k)] + exponent[cell_of(k, j)] - reference;
            // Splits far below the best one must not slow the sums down with denormal numbers.
            factor[k] = below > lowest ? static_cast<Real>(power_of_two(below)) : Real(0);
        }
        return reference;
    }

    // List the pairs of children over (i, j), but for those that could not give rise to an entry within the beam.
    void combine_children(Index i, Real beam);

    void add_pair(int32_t code, Real total, Real merit, Real beam, Real &beam_floor);

    // Add up what the rules over the pairs make of them, but for rules whose merit is below `least_merit`.
    void apply_rules(Real least_merit);

    // Store the cell's entries that are worth it, and the parts that rules have in them.
    void keep_entries(Index i, Index j, int64_t reference, double floor, int32_t allowed);

    void store(Index i, Index j, int32_t s, Real value);

    // Hand the outside values down and list the edges whose posterior exceeds the threshold, top-down by cell, those of
    // one cell and rule being one group. An entry's outside value is in two parts: what it has got as a left child, in
    // `outside_start`, and as a right child, in `outside_end`.
    //
    // A rule's posterior over a span is its part in the parent's inside value times the parent's posterior; rules are
    // expanded only where that exceeds a tenth of the threshold.
    void outside(double total);

    // Hand one rule's outside value over (i, j) down to its children at all splits.
    void expand(Index i, Index j, int32_t r, Real weight);

    // Number the entries whose posterior exceeds the threshold, cell by cell. (An edge's posterior never exceeds those of
    // its nodes, but for rounding.)
    void number_nodes(Forest &forest);

    int32_t node(Index i, Index j, int32_t symbol) const {
        const int32_t slot = start_slot[i * n_symbols + symbol];
        return slot < 0 ? -1 : m.node_number[start_run(i, slot) + j];
    }

    // Turn cells, rules and splits into numbers of nodes. Edges without a node, which rounding can leave, are dropped.
    void link_edges(Forest &forest);
};

}  // namespace sapwood
