// Inside values of the coarse grammar.
//
// Over a span (i, j), and for each symbol B that begins at i, the splits at which B ends are walked (a bit set), and the
// values of all symbols that end at j are added up for them at once: one row operation for each split, instead of a
// scattered look-up for each pair of symbols. Then the grammar's pairs B C are read off the sums, sixteen at a time.
#include <algorithm>
#include <limits>

#include "chart/coarse/pass.hpp"

namespace sapwood {
namespace {

constexpr int64_t empty_exponent = lowest_exponent / 4;
// Outside values are as large as inside values are small, and must fit into single precision, too.
constexpr double smallest_value = 1e-30;

}  // namespace

template <class Real> void CoarsePass<Real>::prepare() {
    const Index most_pairs = static_cast<Index>(g.pair_right.size());
    std::fill(n_starting, n_starting + n, 0);
    std::fill(start_slot, start_slot + (n + 1) * n_symbols, -1);
    place = m.place.acquire(n_symbols);
    ending = m.ending.acquire(stride);
    splits = m.splits.acquire(n + 1);
    touched = m.touched.acquire(n_symbols + 1);
    pair_code = m.pair_code.acquire(most_pairs + 1);
    used_rule = m.used_rule.acquire(g.n_rules + 1);
    used_parent = m.used_parent.acquire(g.n_rules + 1);
    rows = m.rows.acquire(n * stride);
    merits = m.merits.acquire(g.n_dense * stride);
    sums = m.sums.acquire(stride);
    weights = m.weights.acquire(n + 1);
    pair_total = m.pair_total.acquire(most_pairs + 1);
    pair_merit = m.pair_merit.acquire(most_pairs + 1);
    used_value = m.used_value.acquire(g.n_rules + 1);
    row = m.row.acquire(n_symbols);
    boundary_merit = m.boundary_merit.acquire(n_symbols);
    limit = m.limit.acquire(n_symbols);
    divisor = m.divisor.acquire(n_symbols);
    pair_first = m.pair_first.acquire(most_pairs + 1);
    pair_last = m.pair_last.acquire(most_pairs + 1);
    std::fill(place, place + n_symbols, -1);
    std::fill(row, row + n_symbols, Real(0));
    std::fill(limit, limit + n_symbols, Real(0));
    std::fill(divisor, divisor + n_symbols, std::numeric_limits<Real>::infinity());
    n_ending = n_parts = 0;
}

template <class Real> double CoarsePass<Real>::inside() {
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

template <class Real> void CoarsePass<Real>::fill_cell(Index i, Index j) {
    const Index cell = cell_of(i, j);
    const int32_t allowed = constraints.of(cell);
    exponent[cell] = empty_exponent;
    std::fill_n(rows + i * stride, round_up_to_lanes(n_ending), Real(0));
    if (allowed == forbidden_cell || (cell_score && cell_score[cell] < limit_of_cells)) return;
    n_touched = n_used = 0;
    const Real *merit_left = left_merit + i * n_symbols, *merit_right = right_merit + j * n_symbols;
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
        for (Index s = 0; s < n_symbols; ++s) boundary_merit[s] = merit_left[s] * merit_right[s];
        // Where only some symbols are allowed, those that make a pair look good may not be among them.
        combine_children(i, allowed == free_cell ? static_cast<Real>(beam) : Real(0));
        apply_rules(static_cast<Real>(minor_share * floor));
    }
    keep_entries(i, j, reference, floor, allowed);
    for (Index x = 0; x < n_touched; ++x) row[touched[x]] = 0;
}

template <class Real> int64_t CoarsePass<Real>::scale_leaf(const Leaf &leaf) {
    double largest = 0;
    for (const double value : leaf.values) largest = std::max(largest, value);
    const int64_t shift = binary_exponent(largest);
    const double scale = power_of_two(-shift);
    for (std::size_t x = 0; x < leaf.symbols.size(); ++x) row[leaf.symbols[x]] = static_cast<Real>(leaf.values[x] * scale);
    return shift;
}

template <class Real> void CoarsePass<Real>::combine_children(Index i, Real beam) {
    Real beam_floor = 0;
    const Index size = round_up_to_lanes(n_ending);
    n_pairs = 0;
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
                for (uint32_t above = mask_above(sums + begin, merit_row + begin, beam_floor); above; above &= above - 1) {
                    const Index at = begin + lowest_bit(above);
                    add_pair(static_cast<int32_t>(d * n_symbols + ending[at]), sums[at], sums[at] * merit_row[at], beam,
                             beam_floor);
                }
            continue;
        }
        for (Index p = g.pair_offsets[b]; p < g.pair_offsets[b + 1]; ++p) {
            const int32_t at = place[g.pair_right[p]];
            if (at < 0) continue;
            const Real merit = sums[at] * g.pair_merit[p];
            if (merit > beam_floor)
                add_pair(static_cast<int32_t>(g.n_dense * n_symbols + p), sums[at], merit, beam, beam_floor);
        }
    }
    // Only now is it known which of them fell below the beam from the start. (Branches that the processor cannot foresee
    // cost more than all the rest, here and below: what is not wanted is written, but not counted.)
    const Index before = n_pairs;
    n_pairs = 0;
    for (Index x = 0; x < before; ++x) {
        const int32_t p = g.pair_of_code[pair_code[x]];
        pair_first[n_pairs] = g.pair_rule_offsets[p];
        pair_last[n_pairs] = g.pair_rule_offsets[p + 1];
        pair_total[n_pairs] = pair_total[x];
        n_pairs += pair_merit[x] > beam_floor;
    }
}

template <class Real> void CoarsePass<Real>::add_pair(int32_t code, Real total, Real merit, Real beam, Real &beam_floor) {
    beam_floor = std::max(beam_floor, merit * beam);
    pair_code[n_pairs] = code;
    pair_total[n_pairs] = total;
    pair_merit[n_pairs] = merit;
    ++n_pairs;
}

template <class Real> void CoarsePass<Real>::apply_rules(Real least_merit) {
    for (Index x = 0; x < n_pairs; ++x) {
        const Real total = pair_total[x];
        m.rules_applied += pair_last[x] - pair_first[x];
        for (Index r = pair_first[x]; r < pair_last[x]; ++r) {
            const Real added = total * rule_weight[r];
            const int32_t s = g.rule_parent[r];
            used_rule[n_used] = static_cast<int32_t>(r);
            used_parent[n_used] = s;
            used_value[n_used] = added;
            n_used += added * boundary_merit[s] >= least_merit;
        }
    }
    for (Index x = 0; x < n_used; ++x) {
        const int32_t s = used_parent[x];
        touched[n_touched] = s;
        n_touched += row[s] == 0 && used_value[x] > 0;  // (it can be too small for a number)
        row[s] += used_value[x];
    }
}

template <class Real> void CoarsePass<Real>::keep_entries(Index i, Index j, int64_t reference, double floor, int32_t allowed) {
    const Real *merit_left = left_merit + i * n_symbols, *merit_right = right_merit + j * n_symbols;
    Real largest = 0, best = 0;
    for (Index x = 0; x < n_touched; ++x) {
        const int32_t s = touched[x];
        if (allowed >= 0 && !constraints.allowed(allowed, s)) row[s] = 0;
        largest = std::max(largest, row[s]);
        best = std::max(best, row[s] * (merit_left[s] * merit_right[s]));
    }
    if (largest == 0 || best < floor) return;
    const Real lower = std::max(static_cast<Real>(best * beam), static_cast<Real>(floor));
    const int shift = binary_exponent(largest);
    exponent[cell_of(i, j)] = reference + shift;
    const double scale = power_of_two(-shift), smallest = beam > 0 ? smallest_value : 0.0;
    for (Index x = 0; x < n_touched; ++x) {
        const int32_t s = touched[x];
        const Real estimate = row[s] * (merit_left[s] * merit_right[s]);
        const Real value = static_cast<Real>(row[s] * scale);
        divisor[s] = std::numeric_limits<Real>::infinity();
        if (value > smallest && estimate >= lower) {
            limit[s] = static_cast<Real>(minor_share * std::max(threshold, floor > 0 ? floor / estimate : 0.0));
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

template <class Real> void CoarsePass<Real>::store(Index i, Index j, int32_t s, Real value) {
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

template double CoarsePass<float>::inside();
template double CoarsePass<double>::inside();

}  // namespace sapwood
