// Inside and outside of the coarse grammar, and the forest of what is worth keeping.
//
// Over a span (i, j), and for each symbol B that begins at i, the splits at which B ends are walked (a bit set), and the
// values of all symbols that end at j are added up for them at once: one row operation for each split, instead of a
// scattered look-up for each pair of symbols. Then the grammar's pairs B C are read off the sums, sixteen at a time.
#include "inference/coarse.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "inference/lanes.hpp"
#include "scaling.hpp"

namespace sapwood {
namespace {

constexpr int64_t lowest_exponent = -(int64_t{1} << 40);
constexpr int64_t empty_exponent = lowest_exponent / 4;
// The beam of the inside pass as a multiple of the threshold.
constexpr double beam_factor = 10.0;
// If the grammar makes a sentence less probable than this share of what its contexts let expect, their estimates of
// posteriors are too low.
constexpr double doubtful = 0.01;
// Rules with a smaller share than this of what is worth keeping are passed over.
constexpr double minor = 0.1;
// Outside values are as large as inside values are small, and must fit into single precision, too.
constexpr double smallest_value = 1e-30;

template <class Real> class CoarsePass {
  public:
    CoarsePass(const CoarseGrammar &grammar, const std::vector<const Leaf *> &leaves, double threshold,
               const Constraints &constraints, CoarseMemory<Real> &memory)
        : g(grammar), leaves(leaves), n(static_cast<Index>(leaves.size())), n_symbols(grammar.n_symbols),
          n_cells(n * (n + 1) / 2), n_words((n >> 6) + 1), stride(whole_lanes(grammar.n_symbols)), threshold(threshold),
          beam(beam_factor * threshold), lowest(threshold > 0 ? -60 : -1074), constraints(constraints), m(memory) {
        const std::size_t size = static_cast<std::size_t>(n_cells) * n_symbols;
        by_start = m.by_start.take(size), by_end = m.by_end.take(size);
        outside_start = m.outside_start.take(size), outside_end = m.outside_end.take(size);
        exponent = m.exponent.take(n_cells);
        ends = m.ends.take((n + 1) * n_symbols * n_words), starts = m.starts.take((n + 1) * n_symbols * n_words);
        starting = m.starting.take(n * n_symbols), n_starting = m.n_starting.take(n);
        start_slot = m.start_slot.take((n + 1) * n_symbols), end_slot = m.end_slot.take((n + 1) * n_symbols);
        part_offsets = m.part_offsets.take(n_cells + 1);
        factor = m.factor.take(n + 1);
        rule_weight = g.weights<Real>();
    }

    bool run(Forest &forest) {
        Scaled expected;
        if (threshold > 0 && !constraints.any())  // of which the estimates would know nothing
            expected = estimate_fits(g, leaves, m);
        left_fit = m.left_fit.take((n + 1) * n_symbols), right_fit = m.right_fit.take((n + 1) * n_symbols);
        left_exponent = m.left_exponent.take(n + 1), right_exponent = m.right_exponent.take(n + 1);
        if (!(expected.value > 0)) {
            expected = {};
            for (Index i = 0; i <= n; ++i) {
                std::copy(g.prior.begin(), g.prior.end(), left_fit + i * n_symbols);
                std::fill_n(right_fit + i * n_symbols, n_symbols, Real(1));
                left_exponent[i] = right_exponent[i] = 0;
            }
        }
        least_exponent = expected.exponent;
        double total = 0;
        for (double assumed = expected.value;;) {
            least = threshold * assumed;
            total = inside();
            ++rounds;
            // If the grammar finds the sentence much less probable than was assumed, too much was left out.
            const int64_t apart = std::min<int64_t>(exponent[n_cells - n] - expected.exponent, 1000);
            const double found = total > 0 ? std::ldexp(total, static_cast<int>(std::max<int64_t>(apart, -100000))) : 0.0;
            if (assumed == 0 || found > doubtful * assumed) break;
            assumed = found;
        }
        if (total == 0) return false;
        outside(total);
        number_nodes(forest);
        // The forest, and what finer versions leave of it.
        if (m.budget) m.budget->charge(m.forest_bytes, 2 * Forest::bytes(n_cells, forest.n_nodes(), n_groups, n_edges));
        link_edges(forest);
        return true;
    }

    void list_entries(std::vector<Entry> &entries) const {
        for (Index i = 0; i < n; ++i)
            for (Index a = 0; a < n_starting[i]; ++a)
                for (Index j = i + 1; j <= n; ++j) {
                    if (!holds(end_set(i, a), j)) continue;
                    const int32_t s = starting[i * n_symbols + a];
                    const Index at = start_run(i, a) + j;
                    const double value = outside_start[at] + outside_end[end_run(j, end_slot[j * n_symbols + s]) + i];
                    entries.push_back({static_cast<int32_t>(i), static_cast<int32_t>(j), s, by_start[at],
                                       exponent[cell_of(i, j)], value * by_start[at]});
                }
    }

    int rounds = 0;

  private:
    const CoarseGrammar &g;
    const std::vector<const Leaf *> &leaves;
    const Index n, n_symbols, n_cells, n_words, stride;
    const double threshold, beam;
    const int64_t lowest;
    const Constraints &constraints;
    CoarseMemory<Real> &m;
    Real *by_start, *by_end, *outside_start, *outside_end, *left_fit, *right_fit, *factor;
    const Real *rule_weight;
    int64_t *exponent, *left_exponent, *right_exponent, *part_offsets;
    uint64_t *ends, *starts;
    int32_t *starting, *n_starting, *start_slot, *end_slot;
    double least = 0;
    int64_t least_exponent = 0;
    Index n_groups = 0, n_edges = 0;

    // Scratch of the inside pass, for one end j or one cell.
    int32_t *place, *ending, *splits, *touched, *met_code, *used_rule, *used_parent;
    Real *rows, *merits, *sums, *weights, *met_total, *met_merit, *used_value, *row, *fit, *limit, *divisor;
    int64_t *met_first, *met_last;
    Index n_ending = 0, n_met = 0, n_used = 0, n_touched = 0, n_parts = 0;

    // Where `by_start` keeps end 0 of the run for a slot of start i (its first real end is i + 1).
    Index start_run(Index i, Index slot) const { return n_symbols * (i * n - i * (i - 1) / 2) + slot * (n - i) - i - 1; }
    // Where `by_end` keeps start 0 of the run for a slot of end j.
    Index end_run(Index j, Index slot) const { return n_symbols * (j * (j - 1) / 2) + slot * j; }
    uint64_t *end_set(Index i, Index slot) const { return ends + (i * n_symbols + slot) * n_words; }
    uint64_t *start_set(Index j, Index slot) const { return starts + (j * n_symbols + slot) * n_words; }
    static bool holds(const uint64_t *set, Index position) { return set[position >> 6] >> (position & 63) & 1; }

    void prepare() {
        const Index n_pairs = static_cast<Index>(g.pair_right.size());
        std::fill(n_starting, n_starting + n, 0);
        std::fill(start_slot, start_slot + (n + 1) * n_symbols, -1);
        place = m.place.take(n_symbols), ending = m.ending.take(stride), splits = m.splits.take(n + 1);
        touched = m.touched.take(n_symbols + 1), met_code = m.met_code.take(n_pairs + 1);
        used_rule = m.used_rule.take(g.n_rules + 1), used_parent = m.used_parent.take(g.n_rules + 1);
        rows = m.rows.take(n * stride), merits = m.merits.take(g.n_dense * stride), sums = m.sums.take(stride);
        weights = m.weights.take(n + 1), met_total = m.met_total.take(n_pairs + 1);
        met_merit = m.met_merit.take(n_pairs + 1), used_value = m.used_value.take(g.n_rules + 1);
        row = m.row.take(n_symbols), fit = m.fit.take(n_symbols), limit = m.limit.take(n_symbols);
        divisor = m.divisor.take(n_symbols);
        met_first = m.met_first.take(n_pairs + 1), met_last = m.met_last.take(n_pairs + 1);
        std::fill(place, place + n_symbols, -1);
        std::fill(row, row + n_symbols, Real(0));
        std::fill(limit, limit + n_symbols, Real(0));
        std::fill(divisor, divisor + n_symbols, std::numeric_limits<Real>::infinity());
        n_ending = n_parts = 0;
    }

    // Fill the chart; returns the sentence's scaled probability.
    //
    // An entry's inside value times how well its symbol fits at both boundaries is its merit, an estimate of its
    // posterior but for a factor. Kept are entries whose merit is at least `least 2^least_exponent` and at least `beam`
    // times the cell's largest.
    double inside() {
        prepare();
        Index visited = 0;
        part_offsets[0] = 0;
        for (Index j = 1; j <= n; ++j) {
            if (m.budget) m.budget->check_time();
            for (Index x = 0; x < n_ending; ++x) place[ending[x]] = -1;
            n_ending = 0;
            for (Index i = j - 1; i >= 0; --i) {
                part_offsets[++visited] = n_parts;
                fill_cell(i, j);
                part_offsets[visited] = n_parts;
            }
        }
        double total = 0;
        for (Index a = 0; a < n_starting[0]; ++a)
            if (holds(end_set(0, a), n)) total += by_start[start_run(0, a) + n] * g.root[starting[a]];
        return total;
    }

    void fill_cell(Index i, Index j) {
        const Index cell = cell_of(i, j);
        const int32_t allowed = constraints.of(cell);
        exponent[cell] = empty_exponent;
        std::fill_n(rows + i * stride, whole_lanes(n_ending), Real(0));
        if (allowed == -2) return;
        n_touched = n_used = 0;
        const Real *fit_left = left_fit + i * n_symbols, *fit_right = right_fit + j * n_symbols;
        const int64_t apart = least_exponent - left_exponent[i] - right_exponent[j];
        int64_t reference = 0;
        if (i == j - 1) {
            const Leaf &leaf = *leaves[i];
            for (std::size_t x = 0; x < leaf.symbols.size(); ++x) {
                row[leaf.symbols[x]] = static_cast<Real>(leaf.values[x]);
                touched[n_touched++] = leaf.symbols[x];
            }
            if constexpr (std::is_same_v<Real, float>) reference = scale_leaf(leaf);
        } else {
            reference = scale_splits(i, j);
            if (reference < lowest_exponent / 2) return;
        }
        const double floor = least * power_of_two(apart - reference);
        if (i < j - 1) {
#pragma omp simd
            for (Index s = 0; s < n_symbols; ++s) fit[s] = fit_left[s] * fit_right[s];
            // Where only some symbols are allowed, those that make a pair look good may not be among them.
            meet_pairs(i, allowed == -1 ? static_cast<Real>(beam) : Real(0));
            apply_rules(static_cast<Real>(minor * floor));
        }
        keep_entries(i, j, reference, floor, allowed);
        for (Index x = 0; x < n_touched; ++x) row[touched[x]] = 0;
    }

    // Bring a word's largest weight into [1/2, 1): what lies far below it must not be too small for a number.
    int64_t scale_leaf(const Leaf &leaf) {
        double largest = 0;
        for (const double value : leaf.values) largest = std::max(largest, value);
        const int64_t shift = binary_exponent(largest);
        const double scale = power_of_two(-shift);
        for (std::size_t x = 0; x < leaf.symbols.size(); ++x)
            row[leaf.symbols[x]] = static_cast<Real>(leaf.values[x] * scale);
        return shift;
    }

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
    void meet_pairs(Index i, Real narrow) {
        Real hopeless = 0;
        const Index size = whole_lanes(n_ending);
        n_met = 0;
        for (Index a = 0; a < n_starting[i]; ++a) {
            const int32_t b = starting[i * n_symbols + a];
            const Real *left = by_start + start_run(i, a);
            const uint64_t *set = end_set(i, a);
            Index n_splits = 0;
            for (Index w = 0; w < n_words; ++w)
                for (uint64_t rest = set[w]; rest; rest &= rest - 1) {
                    const Index k = 64 * w + lowest_bit(rest);
                    splits[n_splits] = static_cast<int32_t>(k);
                    weights[n_splits] = factor[k] * left[k];
                    ++n_splits;
                }
            for (Index begin = 0; begin < size; begin += lanes)
                sum_lanes(sums + begin, splits, weights, n_splits, rows + begin, stride);
            const int32_t d = g.dense_row[b];
            if (d >= 0) {
                const Real *merit_row = merits + d * stride;
                for (Index begin = 0; begin < size; begin += lanes)
                    for (uint32_t above = lanes_above(sums + begin, merit_row + begin, hopeless); above; above &= above - 1) {
                        const Index at = begin + lowest_bit(above);
                        meet(static_cast<int32_t>(d * n_symbols + ending[at]), sums[at], sums[at] * merit_row[at], narrow, hopeless);
                    }
                continue;
            }
            for (Index p = g.pair_offsets[b]; p < g.pair_offsets[b + 1]; ++p) {
                const int32_t at = place[g.pair_right[p]];
                if (at < 0) continue;
                const Real merit = sums[at] * g.pair_merit[p];
                if (merit > hopeless) meet(static_cast<int32_t>(g.n_dense * n_symbols + p), sums[at], merit, narrow, hopeless);
            }
        }
        // Only now is it known which of them were hopeless from the start. (Branches that the processor cannot foresee
        // cost more than all the rest, here and below: what is not wanted is written, but not counted.)
        const Index before = n_met;
        n_met = 0;
        for (Index x = 0; x < before; ++x) {
            const int32_t p = g.pair_of_code[met_code[x]];
            met_first[n_met] = g.pair_rule_offsets[p];
            met_last[n_met] = g.pair_rule_offsets[p + 1];
            met_total[n_met] = met_total[x];
            n_met += met_merit[x] > hopeless;
        }
    }

    void meet(int32_t code, Real total, Real merit, Real narrow, Real &hopeless) {
        hopeless = std::max(hopeless, merit * narrow);
        met_code[n_met] = code;
        met_total[n_met] = total;
        met_merit[n_met] = merit;
        ++n_met;
    }

    // Add up what the rules over the pairs make of them, but for rules whose merit is below `least_merit`.
    void apply_rules(Real least_merit) {
        for (Index x = 0; x < n_met; ++x) {
            const Real total = met_total[x];
            m.rules_applied += met_last[x] - met_first[x];
            for (Index r = met_first[x]; r < met_last[x]; ++r) {
                const Real added = total * rule_weight[r];
                const int32_t s = g.rule_parent[r];
                used_rule[n_used] = static_cast<int32_t>(r);
                used_parent[n_used] = s;
                used_value[n_used] = added;
                n_used += added * fit[s] >= least_merit;
            }
        }
        for (Index x = 0; x < n_used; ++x) {
            const int32_t s = used_parent[x];
            touched[n_touched] = s;
            n_touched += row[s] == 0 && used_value[x] > 0;  // (it can be too small for a number)
            row[s] += used_value[x];
        }
    }

    // Store the cell's entries that are worth it, and the parts that rules have in them.
    void keep_entries(Index i, Index j, int64_t reference, double floor, int32_t allowed) {
        const Real *fit_left = left_fit + i * n_symbols, *fit_right = right_fit + j * n_symbols;
        Real largest = 0, best = 0;
        for (Index x = 0; x < n_touched; ++x) {
            const int32_t s = touched[x];
            if (allowed >= 0 && !constraints.allowed(allowed, s)) row[s] = 0;
            largest = std::max(largest, row[s]);
            best = std::max(best, row[s] * (fit_left[s] * fit_right[s]));
        }
        if (largest == 0 || best < floor) return;
        const Real lower = std::max(static_cast<Real>(best * beam), static_cast<Real>(floor));
        const int shift = binary_exponent(largest);
        exponent[cell_of(i, j)] = reference + shift;
        const double scale = power_of_two(-shift), smallest = beam > 0 ? smallest_value : 0.0;
        for (Index x = 0; x < n_touched; ++x) {
            const int32_t s = touched[x];
            const Real estimate = row[s] * (fit_left[s] * fit_right[s]);
            const Real value = static_cast<Real>(row[s] * scale);
            divisor[s] = std::numeric_limits<Real>::infinity();
            if (value > smallest && estimate >= lower) {
                limit[s] = static_cast<Real>(minor * std::max(threshold, floor > 0 ? floor / estimate : 0.0));
                divisor[s] = row[s];
                store(i, j, s, value);
            }
        }
        Real *part = m.part.grow(n_parts + n_used + 1, n_parts);
        int32_t *part_rule = m.part_rule.grow(n_parts + n_used + 1, n_parts);
        for (Index x = 0; x < n_used; ++x) {
            const int32_t s = used_parent[x];
            const Real share = used_value[x] / divisor[s];
            part_rule[n_parts] = used_rule[x];
            part[n_parts] = share;
            n_parts += share > limit[s];
        }
    }

    void store(Index i, Index j, int32_t s, Real value) {
        Index a = start_slot[i * n_symbols + s];
        if (a < 0) {
            a = n_starting[i]++;
            start_slot[i * n_symbols + s] = static_cast<int32_t>(a);
            starting[i * n_symbols + a] = s;
            std::fill_n(end_set(i, a), n_words, uint64_t{0});
            std::fill_n(outside_start + start_run(i, a) + i + 1, n - i, Real(0));
        }
        Index at = place[s];
        if (at < 0) {
            at = n_ending++;
            place[s] = static_cast<int32_t>(at);
            ending[at] = s;
            end_slot[j * n_symbols + s] = static_cast<int32_t>(at);
            std::fill_n(start_set(j, at), n_words, uint64_t{0});
            std::fill_n(outside_end + end_run(j, at), j, Real(0));
            if (at % lanes == 0)  // rows are as wide as there are symbols, in whole lanes
                for (Index k = i; k < j; ++k) std::fill_n(rows + k * stride + at, lanes, Real(0));
            for (Index d = 0; d < g.n_dense; ++d) merits[d * stride + at] = g.dense_merit[s * g.n_dense + d];
        }
        by_start[start_run(i, a) + j] = value;
        by_end[end_run(j, at) + i] = value;
        rows[i * stride + at] = value;
        end_set(i, a)[j >> 6] |= uint64_t{1} << (j & 63);
        start_set(j, at)[i >> 6] |= uint64_t{1} << (i & 63);
    }

    // Hand the outside values down and list the edges whose posterior exceeds the threshold, top-down by cell, those of
    // one cell and rule being one group. An entry's outside value is in two parts: what it has got as a left child, in
    // `outside_start`, and as a right child, in `outside_end`.
    //
    // A rule's posterior over a span is its part in the parent's inside value times the parent's posterior; rules are
    // expanded only where that exceeds a tenth of the threshold.
    void outside(double total) {
        Real *value = m.value.take(n_symbols), *here = m.here.take(n_symbols);
        int32_t *chosen = m.chosen.take(g.n_rules + 1);
        const Real least_part = static_cast<Real>(minor * threshold);
        const Real *part = m.part.data();
        const int32_t *part_rule = m.part_rule.data();
        n_groups = n_edges = 0;
        std::fill(value, value + n_symbols, Real(0));
        std::fill(here, here + n_symbols, Real(0));
        for (Index a = 0; a < n_starting[0]; ++a)
            if (holds(end_set(0, a), n))
                outside_start[start_run(0, a) + n] = static_cast<Real>(g.root[starting[a]] / total);
        for (Index j = n; j > 1; --j) {
            if (m.budget) m.budget->check_time();
            for (Index i = 0; i < j - 1; ++i) {
                const Index visited = cell_of(0, j) + j - 1 - i, first = part_offsets[visited], last = part_offsets[visited + 1];
                if (first == last) continue;
                Real most = 0;
                for (Index a = 0; a < n_starting[i]; ++a)
                    if (holds(end_set(i, a), j)) {
                        const int32_t s = starting[i * n_symbols + a];
                        const Index at = start_run(i, a) + j;
                        value[s] = outside_start[at] + outside_end[end_run(j, end_slot[j * n_symbols + s]) + i];
                        here[s] = value[s] * by_start[at];
                        most = std::max(most, here[s]);
                    }
                if (most <= least_part) continue;
                // The same splits count as in the inside pass.
                const int64_t reference = scale_splits(i, j), shift = reference - exponent[cell_of(i, j)];
                Index n_chosen = 0;  // without branches, which could not be foreseen
                for (Index x = first; x < last; ++x) {
                    chosen[n_chosen] = part_rule[x];
                    n_chosen += here[g.rule_parent[part_rule[x]]] * part[x] > least_part;
                }
                const double scale = power_of_two(shift);
                for (Index x = 0; x < n_chosen; ++x) {
                    const int32_t r = chosen[x];
                    expand(i, j, r, static_cast<Real>(value[g.rule_parent[r]] * g.rule_weight[r] * scale));
                }
            }
        }
    }

    // Hand one rule's outside value over (i, j) down to its children at all splits.
    void expand(Index i, Index j, int32_t r, Real weight) {
        const Index a = start_slot[i * n_symbols + g.rule_left[r]], at = end_slot[j * n_symbols + g.rule_right[r]];
        const Index left = start_run(i, a), right = end_run(j, at);
        const uint64_t *left_set = end_set(i, a), *right_set = start_set(j, at);
        int32_t *split = m.split.grow(n_edges + n + 1, n_edges);
        const Index before = n_edges;
        for (Index w = 0; w < n_words; ++w)
            for (uint64_t both = left_set[w] & right_set[w]; both; both &= both - 1) {
                const Index k = 64 * w + lowest_bit(both);
                const Real left_value = by_start[left + k], right_value = by_end[right + k], scaled = weight * factor[k];
                outside_start[left + k] += scaled * right_value;
                outside_end[right + k] += scaled * left_value;
                split[n_edges] = static_cast<int32_t>(k);
                n_edges += static_cast<double>(scaled * right_value) * left_value > threshold;
            }
        if (n_edges == before) return;
        m.group_cell.grow(n_groups + 1, n_groups)[n_groups] = i << 32 | j;
        m.group_rule.grow(n_groups + 1, n_groups)[n_groups] = r;
        m.edge_offsets.grow(n_groups + 2, n_groups)[n_groups] = before;
        ++n_groups;
    }

    // Number the entries whose posterior exceeds the threshold, cell by cell. (An edge's posterior never exceeds those of
    // its nodes, but for rounding.)
    void number_nodes(Forest &forest) {
        const double enough = threshold * (1 - 1e-4);
        int32_t *number = m.node_number.take(static_cast<std::size_t>(n_cells) * n_symbols);
        forest.n = n;
        forest.node_offsets.resize(n_cells + 1);
        forest.node_symbol.clear();
        forest.node_cell.clear();
        for (Index j = 1; j <= n; ++j)
            for (Index i = 0; i < j; ++i) {
                const Index cell = cell_of(i, j);
                forest.node_offsets[cell] = forest.n_nodes();
                for (Index a = 0; a < n_starting[i]; ++a) {
                    const Index at = start_run(i, a) + j;
                    number[at] = -1;
                    if (!holds(end_set(i, a), j)) continue;
                    const int32_t s = starting[i * n_symbols + a];
                    const Real value = outside_start[at] + outside_end[end_run(j, end_slot[j * n_symbols + s]) + i];
                    if (static_cast<double>(value) * by_start[at] > enough) {
                        number[at] = static_cast<int32_t>(forest.n_nodes());
                        forest.node_symbol.push_back(s);
                        forest.node_cell.push_back(static_cast<int32_t>(cell));
                    }
                }
            }
        forest.node_offsets[n_cells] = forest.n_nodes();
    }

    int32_t node(Index i, Index j, int32_t symbol) const {
        const int32_t slot = start_slot[i * n_symbols + symbol];
        return slot < 0 ? -1 : m.node_number[start_run(i, slot) + j];
    }

    // Turn cells, rules and splits into numbers of nodes. Edges without a node, which rounding can leave, are dropped.
    void link_edges(Forest &forest) {
        forest.group_parent.clear();
        forest.group_rule.clear();
        forest.group_offsets.assign(1, 0);
        forest.children.clear();
        if (n_groups) m.edge_offsets[n_groups] = n_edges;
        for (Index group = 0; group < n_groups; ++group) {
            const Index i = m.group_cell[group] >> 32, j = m.group_cell[group] & 0xffffffff;
            const int32_t r = m.group_rule[group], parent = node(i, j, g.rule_parent[r]);
            if (parent < 0) continue;
            for (Index e = m.edge_offsets[group]; e < m.edge_offsets[group + 1]; ++e) {
                const Index k = m.split[e];
                const int32_t left = node(i, k, g.rule_left[r]), right = node(k, j, g.rule_right[r]);
                if (left < 0 || right < 0) continue;
                forest.children.push_back(left);
                forest.children.push_back(right);
            }
            if (forest.n_edges() == forest.group_offsets.back()) continue;
            forest.group_parent.push_back(parent);
            forest.group_rule.push_back(r);
            forest.group_offsets.push_back(forest.n_edges());
        }
    }
};

}  // namespace

template <class Real>
bool coarse_forest(const CoarseGrammar &grammar, const std::vector<const Leaf *> &leaves, double threshold,
                   const Constraints &constraints, CoarseMemory<Real> &memory, Forest &forest) {
    return CoarsePass<Real>(grammar, leaves, threshold, constraints, memory).run(forest);
}

template <class Real>
int coarse_entries(const CoarseGrammar &grammar, const std::vector<const Leaf *> &leaves, double threshold,
                   CoarseMemory<Real> &memory, Forest &forest, std::vector<Entry> &entries) {
    const Constraints none{};
    CoarsePass<Real> pass(grammar, leaves, threshold, none, memory);
    if (pass.run(forest)) pass.list_entries(entries);
    return pass.rounds;
}

template int coarse_entries(const CoarseGrammar &, const std::vector<const Leaf *> &, double, CoarseMemory<float> &,
                            Forest &, std::vector<Entry> &);
template bool coarse_forest(const CoarseGrammar &, const std::vector<const Leaf *> &, double, const Constraints &,
                            CoarseMemory<float> &, Forest &);
template bool coarse_forest(const CoarseGrammar &, const std::vector<const Leaf *> &, double, const Constraints &,
                            CoarseMemory<double> &, Forest &);

}  // namespace sapwood
