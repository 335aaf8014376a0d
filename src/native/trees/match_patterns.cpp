// Matches of a pattern in trees that do not change: which candidates match, and where their named nodes are.
#include "core/module.hpp"
#include "trees/pattern_matcher.hpp"

namespace sapwood {
namespace {

// Return the candidates (numbers of nodes, ascending) that match, the nodes of the pattern's names in each (or -1), and the
// tree that takes more than `most_steps` steps, or -1. `held` has a row per part of the pattern, and a column per node: the
// truth of pure parts, and a bound for others. `first_words` and `last_words` have the numbers of words before the first one of
// each node and up to its last one; they are empty if the words of all trees are in the order of their leaves.
std::tuple<Array<int64_t>, Array<int64_t, 2>, int64_t> match_pattern(
    Matrix<const int32_t> parts, Vector<const int32_t> lists, Index n_names, Index n_variables, Index n_spellings,
    Index n_labels, nb::object oracle, Vector<const int32_t> symbols, Vector<const int32_t> parents,
    Vector<const int64_t> begins, Vector<const int64_t> first_words, Vector<const int64_t> last_words,
    Vector<const int64_t> candidates, Matrix<const bool> held, int64_t most_steps) {
    Spellings known(n_spellings, n_labels, std::move(oracle));
    const nb::gil_scoped_release released;
    PatternMatcher matcher({parts, lists, n_names, n_variables}, known, most_steps);
    LinkedTree tree;
    WordOrder order;
    const bool has_order = first_words.size() > 0;
    std::vector<int64_t> found, names;
    int64_t too_long = -1;
    Index at = 0;
    for (Index t = 0; t + 1 < begins.size() && at < candidates.size() && too_long < 0; ++t) {
        const Index begin = begins[t], end = begins[t + 1];
        if (candidates[at] >= end) continue;
        tree.load(symbols.data, parents.data, begin, end);
        if (has_order) order.load(&first_words[begin], &last_words[begin], end - begin);
        matcher.enter(tree, reinterpret_cast<const uint8_t *>(held.data) + begin, held.shape[1], has_order ? &order : nullptr);
        try {
            for (; at < candidates.size() && candidates[at] < end; ++at) {
                const int64_t before = matcher.steps();
                const bool matches = matcher.matches(static_cast<int32_t>(candidates[at] - begin));
                known.work(matcher.steps() - before);
                if (!matches) continue;
                found.push_back(candidates[at]);
                for (const int32_t node : matcher.names) names.push_back(node == no_node ? -1 : begin + node);
            }
        } catch (const PatternMatcher::TooLong &) {
            too_long = t;
        }
    }
    Array<int64_t, 2> places(static_cast<Index>(found.size()), n_names);
    std::copy(names.begin(), names.end(), places.data.get());
    return {to_array(found), std::move(places), too_long};
}

}  // namespace

void bind_pattern_matcher(nb::module_ &module) {
    module.def("match_pattern", &match_pattern, "parts"_a, "lists"_a, "n_names"_a, "n_variables"_a, "n_spellings"_a,
               "n_labels"_a, "oracle"_a, "symbols"_a, "parents"_a, "begins"_a, "first_words"_a, "last_words"_a, "candidates"_a,
               "held"_a, "most_steps"_a);
}

}  // namespace sapwood
