// Lexical weights of a word, put together from its own, its signatures' and its tags'.
#include <algorithm>
#include <vector>

#include "core/module.hpp"
#include "core/records.hpp"

namespace sapwood {
namespace {

// `sapwood.grammar.emissions.Columns`.
struct Columns {
    Vector<const int64_t> offsets;        // (terminals + 1): where each terminal's entries begin
    Vector<const int32_t> symbol;         // (entries)
    Vector<const int64_t> value_offsets;  // (entries + 1)
    Vector<const double> values;
    Vector<const int64_t> state_offsets;  // (preterminals + 1)
    Vector<const int64_t> tag_offsets;    // (terminals + 1)
    Vector<const int32_t> tag;            // (tag entries)
    Vector<const double> tag_values;      // (tag entries)
    Vector<const int32_t> tag_of;         // (preterminals)
    Vector<const double> share;           // (states)

    static constexpr auto fields() {
        using C = Columns;
        return std::tuple{field("offsets", &C::offsets),
                          field("symbol", &C::symbol),
                          field("value_offsets", &C::value_offsets),
                          field("values", &C::values),
                          field("state_offsets", &C::state_offsets),
                          field("tag_offsets", &C::tag_offsets),
                          field("tag", &C::tag),
                          field("tag_values", &C::tag_values),
                          field("tag_of", &C::tag_of),
                          field("share", &C::share)};
    }
};

// The sum over some terminals, each times its weight, of what they have of their own: a row over all states.
Array<double> emission_row(const Columns &columns, Vector<const int64_t> terminals, Vector<const double> weights,
                           Index n_tags) {
    const Index n_symbols = columns.tag_of.size(), n_states = columns.state_offsets[n_symbols];
    Array<double> result(n_states);
    double *row = result.data.get();
    std::fill_n(row, n_states, 0.0);
    std::vector<double> by_tag(n_tags, 0.0);
    for (Index x = 0; x < terminals.size(); ++x) {
        const Index terminal = terminals[x];
        for (Index e = columns.offsets[terminal]; e < columns.offsets[terminal + 1]; ++e) {
            double *target = row + columns.state_offsets[columns.symbol[e]];
            for (Index v = columns.value_offsets[e]; v < columns.value_offsets[e + 1]; ++v)
                *target++ += weights[x] * columns.values[v];
        }
        for (Index e = columns.tag_offsets[terminal]; e < columns.tag_offsets[terminal + 1]; ++e)
            by_tag[columns.tag[e]] += weights[x] * columns.tag_values[e];
    }
    for (Index s = 0; s < n_symbols; ++s) {
        const double of_tag = by_tag[columns.tag_of[s]];
        if (of_tag == 0) continue;
        for (Index state = columns.state_offsets[s]; state < columns.state_offsets[s + 1]; ++state)
            row[state] += columns.share[state] * of_tag;
    }
    return result;
}

}  // namespace

void bind_emissions(nb::module_ &module) {
    module.def("emission_row", &emission_row, "columns"_a, "terminals"_a, "weights"_a, "n_tags"_a, unlocked());
}

}  // namespace sapwood
