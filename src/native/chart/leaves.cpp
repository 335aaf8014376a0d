// Words as the passes see them.
#include "chart/leaves.hpp"

#include <algorithm>

namespace sapwood {
namespace {

template <class Real> std::vector<Row<Real>> &rows_of(Leaf &leaf) {
    if constexpr (std::is_same_v<Real, float>) return leaf.single;
    else return leaf.precise;
}

// Add the states' weights under the leaf's symbols.
template <class Real> void add_row(Leaf &leaf, const LeafArrays &arrays, Index first, Vector<const double> row) {
    Row<Real> &added = rows_of<Real>(leaf).emplace_back();
    added.offsets.assign(1, 0);
    for (const int32_t s : leaf.symbols) {
        for (Index p = arrays.symbol_offsets[s]; p < arrays.symbol_offsets[s + 1]; ++p)
            added.values.push_back(static_cast<Real>(row[arrays.row_order[p - first]]));
        added.offsets.push_back(static_cast<int64_t>(added.values.size()));
    }
}

// Add a row of another leaf, whose symbols can differ.
template <class Real>
void join_row(const Leaf &leaf, const std::vector<int32_t> &own, const Row<Real> &row, std::vector<Row<Real>> &target) {
    Row<Real> &joined = target.emplace_back();
    joined.offsets.assign(1, 0);
    for (const int32_t s : leaf.symbols) {
        const auto at = std::lower_bound(own.begin(), own.end(), s);
        if (at != own.end() && *at == s) {
            const auto bounds = row.offsets.begin() + (at - own.begin());
            joined.values.insert(joined.values.end(), row.values.begin() + bounds[0], row.values.begin() + bounds[1]);
        }
        joined.offsets.push_back(static_cast<int64_t>(joined.values.size()));
    }
}

}  // namespace

Leaf make_leaf(const LeafArrays &arrays, Vector<const double> row, bool single, double floor, bool fixed) {
    Leaf leaf;
    leaf.fixed = fixed;
    const Index n_symbols = arrays.symbol_offsets.size() - 1;
    const Index first = arrays.symbol_offsets[n_symbols] - arrays.row_order.size();
    const Index n_interminals = std::lower_bound(arrays.symbol_offsets.data, arrays.symbol_offsets.data + n_symbols, first) -
                                arrays.symbol_offsets.data;
    double largest = 0;
    for (Index s = n_interminals; s < n_symbols; ++s) {
        double average = 0;
        bool present = false;
        for (Index p = arrays.symbol_offsets[s]; p < arrays.symbol_offsets[s + 1]; ++p) {
            const Index state = arrays.row_order[p - first];
            average += arrays.leaf_average[state] * row[state];
            present |= row[state] != 0;
        }
        largest = std::max(largest, average);
        if (!present) continue;
        leaf.symbols.push_back(static_cast<int32_t>(s));
        leaf.values.push_back(average);
    }
    const double least = std::max(largest * floor, 1e-300);
    for (double &value : leaf.values) value = std::max(value, least);
    if (single) add_row<float>(leaf, arrays, first, row);
    else add_row<double>(leaf, arrays, first, row);
    return leaf;
}

template <class Real>
void add_level(Leaf &leaf, const LevelArrays<Real> &level, Vector<const int64_t> fine_offsets,
               Vector<const int64_t> level_offsets) {
    Row<Real> added;
    const Row<Real> &row = rows_of<Real>(leaf).at(0);
    added.offsets.assign(1, 0);
    std::vector<double> sums;
    for (std::size_t x = 0; x < leaf.symbols.size(); ++x) {
        const int32_t s = leaf.symbols[x];
        const Index begin = level_offsets[s];
        sums.assign(level_offsets[s + 1] - begin, 0.0);
        for (Index at = row.offsets[x], p = fine_offsets[s]; at < row.offsets[x + 1]; ++at, ++p)
            if (level.target[p] >= 0) sums.at(level.target[p] - begin) += row.values[at] * level.shares[p];
        for (const double sum : sums) added.values.push_back(static_cast<Real>(sum));
        added.offsets.push_back(static_cast<int64_t>(added.values.size()));
    }
    rows_of<Real>(leaf).push_back(std::move(added));
}

Array<double> leaf_vector(const Leaf &leaf, Index number, int32_t symbol) {
    const auto at = std::lower_bound(leaf.symbols.begin(), leaf.symbols.end(), symbol);
    if (at == leaf.symbols.end() || *at != symbol) return Array<double>(0);
    const Index x = at - leaf.symbols.begin();
    const auto copy = [&](const auto &row) {
        Array<double> result(row.offsets[x + 1] - row.offsets[x]);
        std::copy(row.values.begin() + row.offsets[x], row.values.begin() + row.offsets[x + 1], result.data.get());
        return result;
    };
    return leaf.single.empty() ? copy(leaf.precise.at(number)) : copy(leaf.single.at(number));
}

Leaf join_leaves(const Leaves &members, Vector<const int32_t> symbols, Vector<const double> values, bool fixed) {
    Leaf leaf;
    leaf.symbols.assign(symbols.data, symbols.data + symbols.size());
    leaf.values.assign(values.data, values.data + values.size());
    leaf.fixed = fixed;
    leaf.kind = members.at(0)->kind;
    const auto join = [&](auto rows, auto &target) {
        for (const Leaf *member : members)
            if (!rows(*member).empty()) join_row(leaf, member->symbols, rows(*member)[0], target);
        const auto &first = rows(*members.at(0));
        for (std::size_t row = 1; row < first.size(); ++row) join_row(leaf, members[0]->symbols, first[row], target);
    };
    join([](const Leaf &member) -> const auto & { return member.single; }, leaf.single);
    join([](const Leaf &member) -> const auto & { return member.precise; }, leaf.precise);
    return leaf;
}

template void add_level(Leaf &, const LevelArrays<float> &, Vector<const int64_t>, Vector<const int64_t>);
template void add_level(Leaf &, const LevelArrays<double> &, Vector<const int64_t>, Vector<const int64_t>);

}  // namespace sapwood
