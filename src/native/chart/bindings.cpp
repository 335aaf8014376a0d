// Bindings of the parser: grammars, leaves, forests and charts.
#include <algorithm>
#include <bit>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "chart/coarse/state_clustering.hpp"
#include "chart/compile_grammar.hpp"
#include "chart/engine.hpp"
#include "chart/fine/viterbi.hpp"
#include "chart/kbest.hpp"
#include "chart/leaves.hpp"
#include "core/copies.hpp"
#include "core/module.hpp"
#include "core/records.hpp"
#include "core/simd.hpp"

namespace sapwood {
namespace {

// The coarse grammar's rules, as `CompiledGrammar` has them.
struct CoarseArrays {
    Vector<const int32_t> rule_parent, rule_left, rule_right;
    Vector<const double> rule_weight;
    Vector<const int64_t> pair_offsets;
    Vector<const int32_t> pair_right;
    Vector<const int64_t> pair_rule_offsets;
    Vector<const double> prior;

    static constexpr auto fields() {
        using A = CoarseArrays;
        return std::tuple{field("rule_parent", &A::rule_parent),
                          field("rule_left", &A::rule_left),
                          field("rule_right", &A::rule_right),
                          field("rule_weight", &A::rule_weight),
                          field("pair_offsets", &A::pair_offsets),
                          field("pair_right", &A::pair_right),
                          field("prior", &A::prior),
                          field("pair_rule_offsets", &A::pair_rule_offsets)};
    }
};

// `sapwood.inference.chart.compiled.PairTables`.
struct PairTables {
    Vector<const float> merit;
    Vector<const int32_t> dense_row;
    Matrix<const float> dense_merit;
    Vector<const int32_t> pair_of_code;

    static constexpr auto fields() {
        return std::tuple{field("merit", &PairTables::merit), field("dense_row", &PairTables::dense_row),
                          field("dense_merit", &PairTables::dense_merit), field("pair_of_code", &PairTables::pair_of_code)};
    }
};

// `sapwood.inference.chart.boundary_model.BoundaryModel`.
struct BoundaryModel {
    Vector<const int32_t> tag;
    Vector<const double> tag_share;
    Matrix<const double> left, right, transitions;

    static constexpr auto fields() {
        return std::tuple{field("tag", &BoundaryModel::tag), field("tag_share", &BoundaryModel::tag_share),
                          field("left", &BoundaryModel::left), field("right", &BoundaryModel::right),
                          field("transitions", &BoundaryModel::transitions)};
    }
};

// `sapwood.inference.chart.compiled.PhraseLabels`.
struct PhraseLabels {
    Vector<const int64_t> offsets;
    Vector<const int32_t> labels;
    Index phrases, total;

    static constexpr auto fields() {
        return std::tuple{field("offsets", &PhraseLabels::offsets), field("labels", &PhraseLabels::labels),
                          field("phrases", &PhraseLabels::phrases), field("total", &PhraseLabels::total)};
    }
};

std::shared_ptr<CoarseGrammar> make_coarse(const CoarseArrays &rules, const PairTables &pairs, const BoundaryModel &boundaries,
                                           const PhraseLabels &labels, Vector<const double> root, Index n_interminals) {
    auto grammar = std::make_shared<CoarseGrammar>();
    CoarseGrammar &g = *grammar;
    g.n_symbols = root.size();
    g.n_interminals = n_interminals;
    g.n_rules = rules.rule_parent.size();
    g.n_tags = boundaries.transitions.shape[0] - 1;
    g.n_dense = pairs.dense_merit.shape[1];
    g.rule_parent = flat(rules.rule_parent);
    g.rule_left = flat(rules.rule_left);
    g.rule_right = flat(rules.rule_right);
    g.rule_weight = flat(rules.rule_weight);
    g.rule_weight_single = flat_single(rules.rule_weight);
    g.pair_offsets = flat(rules.pair_offsets);
    g.pair_right = flat(rules.pair_right);
    g.pair_rule_offsets = flat(rules.pair_rule_offsets);
    g.root = flat(root);
    g.prior = flat(rules.prior);
    g.pair_merit = flat(pairs.merit);
    g.dense_row = flat(pairs.dense_row);
    g.dense_merit = flat(pairs.dense_merit);
    g.pair_of_code = flat(pairs.pair_of_code);
    g.tag = flat(boundaries.tag);
    g.tag_share = flat(boundaries.tag_share);
    g.left = flat_single(boundaries.left), g.right = flat_single(boundaries.right),
    g.transitions = flat(boundaries.transitions);
    g.label_offsets = flat(labels.offsets);
    g.labels = flat(labels.labels);
    g.n_labels = labels.total;
    g.n_phrase_labels = labels.phrases;
    return grammar;
}

// Let a grammar prune cells that score below the threshold, given the weights of their features, a power of two of them.
void set_cell_pruner(CoarseGrammar &grammar, Vector<const float> weights, float threshold) {
    const int bits = std::countr_zero(static_cast<uint64_t>(weights.size()));
    grammar.cell_pruner = std::make_shared<CellPruner>(CellPruner{bits, threshold, flat(weights)});
}

// The most probable tag of each word by the Markov model over tags.
Array<int32_t> best_tags(const CoarseGrammar &grammar, const Leaves &leaves, Workspace &workspace) {
    CoarseMemory<double> &memory = workspace.coarse_double;
    estimate_merits(grammar, leaves, true, memory);
    return array_of(memory.best_tag.data(), static_cast<Index>(leaves.size()));
}

template <class Real> std::shared_ptr<FineGrammar<Real>> make_fine(const FineArrays<Real> &arrays, double least, nb::handle) {
    return compile_fine<Real>(arrays, least);
}

Forest make_forest(Index n, Vector<const int64_t> node_offsets, Vector<const int32_t> node_symbol,
                   Vector<const int32_t> node_cell, Vector<const int32_t> group_parent, Vector<const int32_t> group_rule,
                   Vector<const int64_t> group_offsets, Matrix<const int32_t> children) {
    check_shape("node_offsets", node_offsets, n * (n + 1) / 2 + 1);
    check_shape("node_cell", node_cell, node_symbol.size());
    check_shape("group_rule", group_rule, group_parent.size());
    check_shape("group_offsets", group_offsets, group_parent.size() + 1);
    check_shape("children", children, group_offsets[group_parent.size()], 2);
    return {n,
            flat(node_offsets),
            flat(node_symbol),
            flat(node_cell),
            flat(group_parent),
            flat(group_rule),
            flat(group_offsets),
            flat(children)};
}

auto forest_arrays(const Forest &forest) {
    Array<int32_t, 2> children(forest.n_edges(), 2);
    std::copy(forest.children.begin(), forest.children.end(), children.data.get());
    return std::tuple{forest.n,
                      to_array(forest.node_offsets),
                      to_array(forest.node_symbol),
                      to_array(forest.node_cell),
                      to_array(forest.group_parent),
                      to_array(forest.group_rule),
                      to_array(forest.group_offsets),
                      std::move(children)};
}

std::optional<Forest> coarse_forest_of(const CoarseGrammar &grammar, const Leaves &leaves, double threshold,
                                       Vector<const int32_t> cells, Matrix<const bool> allowed, bool prune_cells,
                                       Workspace &workspace) {
    const Constraints constraints{cells, allowed, prune_cells};
    constraints.check(static_cast<Index>(leaves.size()), grammar.n_symbols);
    const WorkspaceGuard guard{workspace};
    if (!prune_coarsely(grammar, leaves, threshold, constraints, workspace)) return std::nullopt;
    return workspace.first;
}

// Everything that a fine pass finds: the scaled total, posteriors of nodes and edges, offsets of vectors, inside and
// outside vectors, exponents of cells.
template <class Real>
auto fine_chart(const FineGrammar<Real> &grammar, const Leaves &leaves, Index row, const Forest &forest, double negligible,
                Workspace &workspace) {
    const WorkspaceGuard guard{workspace};
    FineMemory<Real> &m = workspace.fine<Real>();
    const double total = fine_pass(grammar, leaves, row, forest, negligible, m);
    const Index n_nodes = total == 0 ? 0 : forest.n_nodes(), n_edges = total == 0 ? 0 : forest.n_edges();
    // Where all vectors have room for four states, the sizes are those of the symbols again.
    Array<int64_t> offsets(n_nodes + 1);
    offsets[0] = 0;
    for (Index v = 0; v < n_nodes; ++v) offsets[v + 1] = offsets[v] + grammar.vector_sizes[forest.node_symbol[v]];
    Array<Real> inside(offsets[n_nodes]), outside(offsets[n_nodes]);
    for (Index v = 0; v < n_nodes; ++v)
        for (Index x = 0; x < offsets[v + 1] - offsets[v]; ++x) {
            inside.data[offsets[v] + x] = m.inside[m.offsets[v] + x];
            outside.data[offsets[v] + x] = m.outside[m.offsets[v] + x];
        }
    return std::tuple{total,
                      array_of(m.node_posterior.data(), n_nodes),
                      array_of(m.edge_posterior.data(), n_edges),
                      std::move(offsets),
                      std::move(inside),
                      std::move(outside),
                      array_of(m.exponent.data(), forest.n * (forest.n + 1) / 2)};
}

std::optional<Forest> filter_forest_of(const Forest &forest, Index n_interminals, double threshold,
                                       Vector<const double> posterior, Workspace &workspace) {
    check_shape("posterior", posterior, forest.n_edges());
    FineMemory<double> &memory = workspace.fine_double;
    std::copy(posterior.data, posterior.data + posterior.size(), memory.edge_posterior.acquire(posterior.size() + 1));
    Forest smaller;
    if (!filter_forest(forest, n_interminals, threshold, memory, smaller)) return std::nullopt;
    return smaller;
}

// Scores of leaves, edges and inner nodes in; each node's best total and chosen edge out.
auto best_edges(const Forest &forest, Vector<const double> leaf_score, Vector<const double> score, Vector<const double> gain) {
    check_shape("leaf_score", leaf_score, forest.n_nodes());
    check_shape("score", score, forest.n_edges());
    check_shape("gain", gain, forest.n_nodes());
    Array<double> best(forest.n_nodes());
    Array<int64_t> choice(forest.n_nodes());
    best_by_edges(forest, leaf_score.data, score.data, gain.data, best.data.get(), choice.data.get());
    return std::pair{std::move(best), std::move(choice)};
}

// The nodes of the trees in preorder (trees, 2 n - 1), their scores, and the bound of all other trees.
auto k_best_arrays(const Forest &forest, const KBest &found) {
    const Index count = static_cast<Index>(found.trees.size()), size = 2 * forest.n - 1;
    Array<int32_t, 2> nodes(count, size);
    for (Index x = 0; x < count; ++x) std::copy_n(found.trees[x].begin(), size, nodes.data.get() + x * size);
    return std::tuple{std::move(nodes), to_array(found.scores), found.bound};
}

auto best_by_scores(const Forest &forest, Index n_interminals, Vector<const double> leaf_score, Vector<const double> edge_score,
                    Vector<const double> root_score, std::size_t count, const Workspace &workspace) {
    check_shape("leaf_score", leaf_score, forest.n_nodes());
    check_shape("edge_score", edge_score, forest.n_edges());
    check_shape("root_score", root_score, forest.n_nodes());
    return k_best_arrays(forest,
                         k_best_by_scores(forest, n_interminals, leaf_score, edge_score, root_score, count, workspace.budget));
}

// What `k_best_of_grammars` needs of a chart.
template <class Real> struct MemberArrays {
    Vector<const int64_t> vector_offsets;
    Vector<const Real> inside;
    Vector<const int64_t> exponent;

    static constexpr auto fields() {
        using A = MemberArrays;
        return std::tuple{field("vector_offsets", &A::vector_offsets), field("inside", &A::inside),
                          field("exponent", &A::exponent)};
    }
};

template <class Real>
auto best_of_grammars(const Forest &forest, Index n_interminals,
                      const std::vector<std::shared_ptr<FineGrammar<Real>>> &grammars,
                      const std::vector<MemberArrays<Real>> &charts, Vector<const double> log_nodes,
                      Vector<const double> log_edges, double log_probability, std::size_t count, std::size_t limit,
                      const Workspace &workspace) {
    check_shape("log_nodes", log_nodes, forest.n_nodes());
    check_shape("log_edges", log_edges, forest.n_edges());
    if (grammars.empty() || grammars.size() != charts.size()) throw nb::value_error("as many charts as grammars are needed");
    std::vector<MemberChart<Real>> members;
    for (std::size_t m = 0; m < charts.size(); ++m) {
        const MemberArrays<Real> &chart = charts[m];
        check_shape("vector_offsets", chart.vector_offsets, forest.n_nodes() + 1);
        check_shape("inside", chart.inside, chart.vector_offsets[forest.n_nodes()]);
        check_shape("exponent", chart.exponent, forest.n * (forest.n + 1) / 2);
        members.push_back({grammars[m].get(), chart.vector_offsets, chart.inside, chart.exponent});
    }
    const LogPosteriors posteriors{log_nodes, log_edges, log_probability};
    return k_best_arrays(forest,
                         k_best_of_grammars(forest, n_interminals, members, posteriors, count, limit, workspace.budget));
}

// What leaves and inner nodes score if the expected F1 is to be large.
auto phrase_scores(const Forest &forest, const CoarseGrammar &grammar, Vector<const double> node_posterior) {
    check_shape("node_posterior", node_posterior, forest.n_nodes());
    Array<double> leaf_score(forest.n_nodes()), gain(forest.n_nodes());
    std::vector<double> totals(grammar.n_labels);
    score_phrases(forest, grammar, node_posterior.data, totals.data(), leaf_score.data.get(), gain.data.get());
    return std::pair{std::move(leaf_score), std::move(gain)};
}

// The tree's symbols in preorder and the logarithm of the sentence's probability, or None. `spans` and `tags` are those of
// another scorer, or empty; or a span scorer, which sees the words as `features`, computes them. Cells with a posterior below
// `prune_below` by them are closed, unless `cells` says which are.
template <class Real>
std::optional<std::pair<Array<int32_t>, double>> parse(
    const Engine<Real> &engine, const Leaves &leaves, double threshold, double level, double negligible, double unseen,
    Vector<const int32_t> cells, Matrix<const bool> allowed, bool prune_cells, Decoder decoder, const ForestCRF *crf,
    Matrix<const uint32_t> words, Matrix<const float> spans, Matrix<const float> tags, const SpanScorer *span_scorer,
    Matrix<const int32_t> features, double prune_below, Workspace &workspace) {
    const Index n = static_cast<Index>(leaves.size());
    SentenceView sentence{words, spans, tags};
    Constraints constraints{cells, allowed, prune_cells};
    constraints.check(n, engine.coarse->n_symbols);
    if (crf) sentence.check(n);
    if (crf && span_scorer) {
        check_shape("features", features, n + 2, any_size);
        workspace.budget.check_time();
        SpanScorerMemory &memory = workspace.span_scorer;
        span_scorer->score(features, {}, memory);
        sentence.spans = {memory.spans.data(), {n * (n + 1) / 2, span_scorer->labels}};
        sentence.tags = {memory.tags.data(), {n, span_scorer->tags}};
    }
    if (crf && prune_below > 0 && cells.size() == 0 && sentence.tags.size() > 0) {
        prune_spans(sentence.spans, n, prune_below, workspace.span_scorer);
        constraints.cells = {workspace.span_scorer.cells.data(), {n * (n + 1) / 2}};
    }
    auto found = engine.parse(leaves, {threshold, level, negligible, unseen}, constraints, decoder, {crf, sentence}, workspace);
    if (!found) return std::nullopt;
    return std::pair{to_array(found->symbols), found->log_probability};
}

// The chart of the coarse pass, in single precision: how often the inside pass was run, the forest (empty if there is no
// parse), and places (entries, 3): start, end, symbol; inside values, their exponents, posteriors.
auto entries_of(const CoarseGrammar &grammar, const Leaves &leaves, double threshold) {
    CoarseMemory<float> memory;
    Forest forest;
    std::vector<Entry> entries;
    const int rounds = coarse_entries(grammar, leaves, threshold, memory, forest, entries);
    const Index size = static_cast<Index>(entries.size());
    Array<int32_t, 2> places(size, 3);
    Array<double> inside(size), posterior(size);
    Array<int64_t> exponent(size);
    for (Index x = 0; x < size; ++x) {
        const Entry &entry = entries[x];
        places.data[3 * x] = entry.i;
        places.data[3 * x + 1] = entry.j;
        places.data[3 * x + 2] = entry.symbol;
        inside.data[x] = entry.inside;
        exponent.data[x] = entry.exponent;
        posterior.data[x] = entry.posterior;
    }
    return std::tuple{
        rounds, std::move(forest), std::move(places), std::move(inside), std::move(exponent), std::move(posterior)};
}

// Left and right fits (n + 1, S) with their exponents, and the sentence's probability under the Markov model of tags.
auto merits_of(const CoarseGrammar &grammar, const Leaves &leaves) {
    CoarseMemory<double> memory;
    const Scaled total = estimate_merits(grammar, leaves, false, memory);
    const Index n = static_cast<Index>(leaves.size());
    Array<double, 2> left(n + 1, grammar.n_symbols), right(n + 1, grammar.n_symbols);
    std::copy_n(memory.left_merit.data(), left.view().size(), left.data.get());
    std::copy_n(memory.right_merit.data(), right.view().size(), right.data.get());
    return std::tuple{std::move(left),
                      std::move(right),
                      array_of(memory.left_exponent.data(), n + 1),
                      array_of(memory.right_exponent.data(), n + 1),
                      total.value,
                      total.exponent};
}

// Which of sixteen products exceed a limit, as bits.
template <class Real> uint32_t above(Vector<const Real> values, Vector<const Real> factors, Real limit) {
    if (values.size() < lanes || factors.size() < lanes) throw nb::value_error("not sixteen numbers");
    return mask_above(values.data, factors.data, limit);
}

template <class Real> void bind_precision(nb::module_ &module, const char *grammar, const char *engine) {
    nb::class_<FineGrammar<Real>>(module, grammar)
        .def_prop_ro("n_pairs",
                     [](const FineGrammar<Real> &g) { return g.row_pairs.size() + (g.pairs.empty() ? 0 : g.pairs.size() - 1); })
        .def_prop_ro("n_weights", [](const FineGrammar<Real> &g) { return g.weights.size() + g.n_in_rows; })
        .def_prop_ro("n_dense", [](const FineGrammar<Real> &g) { return g.dense.size(); });
    nb::class_<Engine<Real>>(module, engine)
        .def("parse", &parse<Real>, "leaves"_a, "threshold"_a, "level"_a, "negligible"_a, "unseen"_a, "cells"_a, "allowed"_a,
             "prune_cells"_a, "decoder"_a, "crf"_a.none(), "words"_a, "spans"_a, "tags"_a, "span_scorer"_a.none(), "features"_a,
             "prune_below"_a, "workspace"_a, unlocked());
    module.def("fine_grammar", &make_fine<Real>, "arrays"_a, "least"_a, "owner"_a, nb::keep_alive<0, 3>());
    module.def("add_level", &add_level<Real>, "leaf"_a, "level"_a, "fine_offsets"_a, "level_offsets"_a, unlocked());
    module.def("fine_chart", &fine_chart<Real>, "grammar"_a, "leaves"_a, "row"_a, "forest"_a, "negligible"_a, "workspace"_a,
               unlocked());
    module.def("viterbi", &viterbi<Real>, "grammar"_a, "forest"_a, "n_interminals"_a, "offsets"_a, "inside"_a, unlocked());
    module.def("k_best_of_grammars", &best_of_grammars<Real>, "forest"_a, "n_interminals"_a, "grammars"_a, "charts"_a,
               "log_nodes"_a, "log_edges"_a, "log_probability"_a, "count"_a, "limit"_a, "workspace"_a, unlocked());
    module.def("cluster_states", &cluster_states<Real>, "rules"_a, "state_offsets"_a, "tensor_offsets"_a, "tensors"_a,
               "occupancy"_a, "k"_a, unlocked());
    module.def("mask_above", &above<Real>, "values"_a, "factors"_a, "limit"_a);
    module.def("project_tensors", &project_tensors<Real>, "places"_a, "sizes"_a, "offsets"_a, "tensors"_a, "groups"_a,
               "shares"_a, "new_sizes"_a, "new_offsets"_a, "result"_a, unlocked());
    module.def(
        "engine",
        [](std::shared_ptr<CoarseGrammar> coarse, std::vector<std::shared_ptr<FineGrammar<Real>>> members,
           std::vector<std::shared_ptr<FineGrammar<Real>>> levels, std::vector<bool> counted) {
            if (counted.size() != members.size()) throw nb::value_error("as many members must be counted or not as there are");
            return Engine<Real>{coarse, {members.begin(), members.end()}, {levels.begin(), levels.end()}, std::move(counted)};
        },
        "coarse"_a, "members"_a, "levels"_a, "counted"_a, nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
}

// Numbers that Python uses, too.
void bind_numbers(nb::module_ &module) {
    module.attr("FREE") = static_cast<int>(free_cell);
    module.attr("FORBIDDEN") = static_cast<int>(forbidden_cell);
}

}  // namespace

void bind_chart(nb::module_ &module) {
    bind_numbers(module);
    nb::class_<CoarseGrammar>(module, "CoarseGrammar");
    nb::class_<Leaf>(module, "Leaf")
        .def_prop_ro("symbols", [](const Leaf &leaf) { return to_array(leaf.symbols); })
        .def_prop_ro("values", [](const Leaf &leaf) { return to_array(leaf.values); })
        .def_ro("fixed", &Leaf::fixed)
        .def_rw("kind", &Leaf::kind)
        .def("vector", &leaf_vector, "number"_a, "symbol"_a);
    nb::class_<Forest>(module, "Forest").def("arrays", &forest_arrays);
    nb::class_<Workspace>(module, "Workspace")
        .def(nb::init<>())
        .def_prop_ro("rules_applied",
                     [](const Workspace &w) { return w.coarse_single.rules_applied + w.coarse_double.rules_applied; })
        .def("begin", &Workspace::begin, "bytes"_a = nb::none(), "seconds"_a = nb::none())
        .def("check_time", [](const Workspace &workspace) { workspace.budget.check_time(); })
        .def(
            "check_room", [](const Workspace &workspace, std::size_t bytes) { workspace.budget.check_room(bytes); }, "bytes"_a)
        .def(
            "poison",
            [](Workspace &workspace, int byte) {
                workspace.for_each_buffer([&](auto &buffer) { buffer.poison(static_cast<unsigned char>(byte)); });
            },
            "byte"_a);
    nb::register_exception_translator([](const std::exception_ptr &error, void *) {
        try {
            std::rethrow_exception(error);
        } catch (const TimedOut &) {
            PyErr_SetNone(PyExc_TimeoutError);
        }
    });
    nb::enum_<Decoder>(module, "Decoder")
        .value("max_rule", Decoder::max_rule)
        .value("max_rule_sum", Decoder::max_rule_sum)
        .value("recall", Decoder::recall)
        .value("f1", Decoder::f1);
    module.def("coarse_grammar", &make_coarse, "rules"_a, "pairs"_a, "boundaries"_a, "labels"_a, "root"_a, "n_interminals"_a);
    module.def("set_cell_pruner", &set_cell_pruner, "grammar"_a, "weights"_a, "threshold"_a);
    module.def("best_tags", &best_tags, "grammar"_a, "leaves"_a, "workspace"_a, unlocked());
    module.def("leaf", &make_leaf, "arrays"_a, "row"_a, "single"_a, "floor"_a, "fixed"_a, unlocked());
    module.def("join_leaves", &join_leaves, "members"_a, "symbols"_a, "values"_a, "fixed"_a, unlocked());
    module.def("forest", &make_forest, "n"_a, "node_offsets"_a, "node_symbol"_a, "node_cell"_a, "group_parent"_a,
               "group_rule"_a, "group_offsets"_a, "children"_a);
    module.def("coarse_forest", &coarse_forest_of, "grammar"_a, "leaves"_a, "threshold"_a, "cells"_a, "allowed"_a,
               "prune_cells"_a, "workspace"_a, unlocked());
    module.def("filter_forest", &filter_forest_of, "forest"_a, "n_interminals"_a, "threshold"_a, "posterior"_a, "workspace"_a,
               unlocked());
    module.def("best_by_edges", &best_edges, "forest"_a, "leaf_score"_a, "score"_a, "gain"_a, unlocked());
    module.def("k_best_by_scores", &best_by_scores, "forest"_a, "n_interminals"_a, "leaf_score"_a, "edge_score"_a,
               "root_score"_a, "count"_a, "workspace"_a, unlocked());
    module.def("phrase_scores", &phrase_scores, "forest"_a, "grammar"_a, "node_posterior"_a, unlocked());
    module.def("estimate_merits", &merits_of, "grammar"_a, "leaves"_a, unlocked());
    module.def("coarse_entries", &entries_of, "grammar"_a, "leaves"_a, "threshold"_a, unlocked());
    bind_precision<float>(module, "FineGrammarSingle", "EngineSingle");
    bind_precision<double>(module, "FineGrammarDouble", "EngineDouble");
}

}  // namespace sapwood
