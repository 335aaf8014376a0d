// What Python sees of the parser.
#include <algorithm>
#include <bit>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "inference/engine.hpp"
#include "inference/grouping.hpp"
#include "inference/lanes.hpp"
#include "inference/layer.hpp"
#include "inference/leaves.hpp"
#include "inference/tables.hpp"
#include "inference/viterbi.hpp"
#include "module.hpp"
#include "records.hpp"

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
        return std::tuple{field("rule_parent", &A::rule_parent),   field("rule_left", &A::rule_left),
                          field("rule_right", &A::rule_right),     field("rule_weight", &A::rule_weight),
                          field("pair_offsets", &A::pair_offsets), field("pair_right", &A::pair_right),
                          field("prior", &A::prior),               field("pair_rule_offsets", &A::pair_rule_offsets)};
    }
};

// `sapwood.inference.compiled.PairTables`.
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

// `sapwood.inference.contexts.Contexts`.
struct Contexts {
    Vector<const int32_t> tag;
    Vector<const double> share;
    Matrix<const double> begins, follows, steps;

    static constexpr auto fields() {
        return std::tuple{field("tag", &Contexts::tag), field("share", &Contexts::share), field("begins", &Contexts::begins),
                          field("follows", &Contexts::follows), field("steps", &Contexts::steps)};
    }
};

// `sapwood.inference.phrase_labels.PhraseLabels`.
struct PhraseLabels {
    Vector<const int64_t> offsets;
    Vector<const int32_t> labels;
    Index phrases, total;

    static constexpr auto fields() {
        return std::tuple{field("offsets", &PhraseLabels::offsets), field("labels", &PhraseLabels::labels),
                          field("phrases", &PhraseLabels::phrases), field("total", &PhraseLabels::total)};
    }
};

template <class T, int N> std::vector<std::remove_const_t<T>> flat(View<T, N> values) {
    return std::vector<std::remove_const_t<T>>(values.data, values.data + values.size());
}

template <class T, int N> std::vector<float> flat_single(View<T, N> values) {
    return std::vector<float>(values.data, values.data + values.size());
}

std::shared_ptr<CoarseGrammar> make_coarse(const CoarseArrays &rules, const PairTables &pairs, const Contexts &contexts,
                                           const PhraseLabels &labels, Vector<const double> root, Index n_interminals) {
    auto grammar = std::make_shared<CoarseGrammar>();
    CoarseGrammar &g = *grammar;
    g.n_symbols = root.size(), g.n_interminals = n_interminals, g.n_rules = rules.rule_parent.size();
    g.n_tags = contexts.steps.shape[0] - 1, g.n_dense = pairs.dense_merit.shape[1];
    g.rule_parent = flat(rules.rule_parent), g.rule_left = flat(rules.rule_left), g.rule_right = flat(rules.rule_right);
    g.rule_weight = flat(rules.rule_weight), g.rule_weight_single = flat_single(rules.rule_weight);
    g.pair_offsets = flat(rules.pair_offsets), g.pair_right = flat(rules.pair_right);
    g.pair_rule_offsets = flat(rules.pair_rule_offsets), g.root = flat(root), g.prior = flat(rules.prior);
    g.pair_merit = flat(pairs.merit), g.dense_row = flat(pairs.dense_row), g.dense_merit = flat(pairs.dense_merit);
    g.pair_of_code = flat(pairs.pair_of_code), g.tag = flat(contexts.tag), g.share = flat(contexts.share);
    g.begins = flat_single(contexts.begins), g.follows = flat_single(contexts.follows), g.steps = flat(contexts.steps);
    g.label_offsets = flat(labels.offsets), g.labels = flat(labels.labels);
    g.n_labels = labels.total, g.n_phrase_labels = labels.phrases;
    return grammar;
}

template <class T> Array<T> array_of(const T *values, Index size) {
    Array<T> result(size);
    std::copy(values, values + size, result.data.get());
    return result;
}

// Let a grammar close cells that score below the limit, given the weights of their features, a power of two of them.
void set_closing(CoarseGrammar &grammar, Vector<const float> weights, float limit) {
    const int bits = std::countr_zero(static_cast<uint64_t>(weights.size()));
    grammar.closing = std::make_shared<Closing>(Closing{bits, limit, flat(weights)});
}

// The most probable tag of each word by the Markov model over tags.
Array<int32_t> best_tags(const CoarseGrammar &grammar, const Leaves &leaves, Workspace &workspace) {
    CoarseMemory<double> &memory = workspace.coarse_double;
    estimate_fits(grammar, leaves, true, memory);
    return array_of(memory.best_tag.data(), static_cast<Index>(leaves.size()));
}

template <class Real> std::shared_ptr<FineGrammar<Real>> make_fine(const FineArrays<Real> &arrays, double least, nb::handle) {
    return lay_out<Real>(arrays, least);
}

Forest make_forest(Index n, Vector<const int64_t> node_offsets, Vector<const int32_t> node_symbol,
                   Vector<const int32_t> node_cell, Vector<const int32_t> group_parent, Vector<const int32_t> group_rule,
                   Vector<const int64_t> group_offsets, Matrix<const int32_t> children) {
    return {n, flat(node_offsets), flat(node_symbol), flat(node_cell), flat(group_parent), flat(group_rule),
            flat(group_offsets), flat(children)};
}

auto forest_arrays(const Forest &forest) {
    Array<int32_t, 2> children(forest.n_edges(), 2);
    std::copy(forest.children.begin(), forest.children.end(), children.data.get());
    return std::tuple{forest.n, to_array(forest.node_offsets), to_array(forest.node_symbol), to_array(forest.node_cell),
                      to_array(forest.group_parent), to_array(forest.group_rule), to_array(forest.group_offsets),
                      std::move(children)};
}

std::optional<Forest> coarse_forest_of(const CoarseGrammar &grammar, const Leaves &leaves, double threshold,
                                       Vector<const int32_t> cells, Matrix<const bool> allowed, bool close,
                                       Workspace &workspace) {
    const Trim trim{workspace};
    if (!prune_coarsely(grammar, leaves, threshold, {cells, allowed, close}, workspace)) return std::nullopt;
    return workspace.first;
}

// Everything that a fine pass finds: the scaled total, posteriors of nodes and edges, offsets of vectors, inside and
// outside vectors, exponents of cells.
template <class Real>
auto fine_chart(const FineGrammar<Real> &grammar, const Leaves &leaves, Index row, const Forest &forest, double negligible,
                Workspace &workspace) {
    const Trim trim{workspace};
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
    return std::tuple{total, array_of(m.node_posterior.data(), n_nodes), array_of(m.edge_posterior.data(), n_edges),
                      std::move(offsets), std::move(inside), std::move(outside),
                      array_of(m.exponent.data(), forest.n * (forest.n + 1) / 2)};
}

std::optional<Forest> filter_forest_of(const Forest &forest, Index n_interminals, double threshold,
                                       Vector<const double> posterior, Workspace &workspace) {
    FineMemory<double> &memory = workspace.fine_double;
    std::copy(posterior.data, posterior.data + posterior.size(), memory.edge_posterior.take(posterior.size() + 1));
    Forest smaller;
    if (!filter_forest(forest, n_interminals, threshold, memory, smaller)) return std::nullopt;
    return smaller;
}

// Scores of leaves, edges and inner nodes in; each node's best total and chosen edge out.
auto best_edges(const Forest &forest, Vector<const double> leaf_score, Vector<const double> score, Vector<const double> gain) {
    Array<double> best(forest.n_nodes());
    Array<int64_t> choice(forest.n_nodes());
    best_by_edges(forest, leaf_score.data, score.data, gain.data, best.data.get(), choice.data.get());
    return std::pair{std::move(best), std::move(choice)};
}

// What leaves and inner nodes score if the expected F1 is to be large.
auto phrase_scores(const Forest &forest, const CoarseGrammar &grammar, Vector<const double> node_posterior) {
    Array<double> leaf_score(forest.n_nodes()), gain(forest.n_nodes());
    std::vector<double> totals(grammar.n_labels);
    score_phrases(forest, grammar, node_posterior.data, totals.data(), leaf_score.data.get(), gain.data.get());
    return std::pair{std::move(leaf_score), std::move(gain)};
}

// The tree's symbols in preorder and the logarithm of the sentence's probability, or None.
template <class Real>
std::optional<std::pair<Array<int32_t>, double>> parse(const Engine<Real> &engine, const Leaves &leaves, double threshold,
                                                       double level, double negligible, double unseen,
                                                       Vector<const int32_t> cells, Matrix<const bool> allowed, bool close,
                                                       Decoder decoder, const Layer *layer, Matrix<const uint32_t> words,
                                                       Matrix<const float> spans, Matrix<const float> tags, Workspace &workspace) {
    auto found = engine.parse(leaves, {threshold, level, negligible, unseen}, {cells, allowed, close}, decoder,
                              {layer, {words, spans, tags}}, workspace);
    if (!found) return std::nullopt;
    return std::pair{to_array(found->symbols), found->log_probability};
}

// The chart of the coarse pass, in single precision: how often the inside pass was run, the forest (empty if there is no parse),
// and places (entries, 3): start, end, symbol; inside values, their exponents, posteriors.
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
        places.data[3 * x] = entry.i, places.data[3 * x + 1] = entry.j, places.data[3 * x + 2] = entry.symbol;
        inside.data[x] = entry.inside, exponent.data[x] = entry.exponent, posterior.data[x] = entry.posterior;
    }
    return std::tuple{rounds, std::move(forest), std::move(places), std::move(inside), std::move(exponent), std::move(posterior)};
}

// Left and right fits (n + 1, S) with their exponents, and the sentence's probability under the Markov model of tags.
auto fits_of(const CoarseGrammar &grammar, const Leaves &leaves) {
    CoarseMemory<double> memory;
    const Scaled total = estimate_fits(grammar, leaves, false, memory);
    const Index n = static_cast<Index>(leaves.size());
    Array<double, 2> left(n + 1, grammar.n_symbols), right(n + 1, grammar.n_symbols);
    std::copy_n(memory.left_fit.data(), left.view().size(), left.data.get());
    std::copy_n(memory.right_fit.data(), right.view().size(), right.data.get());
    return std::tuple{std::move(left), std::move(right), array_of(memory.left_exponent.data(), n + 1),
                      array_of(memory.right_exponent.data(), n + 1), total.value, total.exponent};
}

std::shared_ptr<LayerSymbols> make_layer_symbols(Vector<const uint64_t> symbol_key, Vector<const uint64_t> tag_key,
                                                 Vector<const uint64_t> rule_key, Vector<const double> root,
                                                 Vector<const int32_t> column, Index n_interminals) {
    auto made = std::make_shared<LayerSymbols>();
    made->n_interminals = n_interminals;
    made->symbol_key = flat(symbol_key), made->tag_key = flat(tag_key), made->rule_key = flat(rule_key);
    made->column = flat(column);
    for (Index s = 0; s < root.size(); ++s) made->is_root.push_back(root[s] > 0);
    return made;
}

std::shared_ptr<Layer> make_layer(Vector<const float> weights, Vector<const double> dense, double threshold, Index groups,
                                  std::shared_ptr<LayerSymbols> symbols) {
    auto made = std::make_shared<Layer>();
    made->weights = flat(weights), made->bits = std::countr_zero(static_cast<uint64_t>(weights.size()));
    made->groups = static_cast<uint32_t>(groups), made->threshold = threshold, made->symbols = symbols;
    std::copy_n(dense.data, dense_weights, made->dense);
    return made;
}

const double *data_of(const std::optional<Vector<const double>> &values) { return values ? values->data : nullptr; }

// What a layer makes of a chart: the forest that it looks at and its nodes' and edges' old numbers; scores of edges, leaves
// and roots; marginals of nodes and edges, and the logarithm of the total, -inf if there is no tree.
auto layer_chart(const Layer &layer, const Forest &forest, Vector<const double> nodes, Vector<const double> edges,
                 std::optional<Vector<const double>> log_nodes, std::optional<Vector<const double>> log_edges, Index members,
                 Matrix<const uint32_t> words, Matrix<const float> spans, Matrix<const float> tags, Workspace &workspace) {
    LayerMemory &m = workspace.layer;
    const double total = run_layer(layer, forest, {nodes.data, edges.data, data_of(log_nodes), data_of(log_edges), members},
                                   {words, spans, tags}, workspace.fine_double, m);
    const Forest &f = m.small.forest;
    return std::tuple{Forest(f), to_array(m.small.old_nodes), to_array(m.small.old_edges), array_of(m.edge_score.data(), f.n_edges()),
                      array_of(m.leaf_score.data(), f.n_nodes()), array_of(m.root_score.data(), f.n_nodes()),
                      array_of(m.node_marginal.data(), f.n_nodes()), array_of(m.edge_marginal.data(), f.n_edges()), total};
}

// The logarithm of the total of all trees' exponentiated scores, and marginals of nodes and edges.
auto forest_sums(const Forest &f, Vector<const double> edge_score, Vector<const double> leaf_score, Vector<const double> root_score) {
    Array<double> inside(f.n_nodes()), nodes(f.n_nodes()), edges(f.n_edges());
    const double total = sum_forest(f, edge_score.data, leaf_score.data, root_score.data, inside.data.get(), nodes.data.get(),
                                    edges.data.get());
    return std::tuple{total, std::move(nodes), std::move(edges)};
}

// Which of sixteen products exceed a limit, as bits.
template <class Real> uint32_t above(Vector<const Real> values, Vector<const Real> factors, Real limit) {
    if (values.size() < lanes || factors.size() < lanes) throw nb::value_error("not sixteen numbers");
    return lanes_above(values.data, factors.data, limit);
}

template <class Real> void bind_precision(nb::module_ &module, const char *grammar, const char *engine) {
    nb::class_<FineGrammar<Real>>(module, grammar)
        .def_prop_ro("n_pairs", [](const FineGrammar<Real> &g) { return g.pairs.empty() ? 0 : g.pairs.size() - 1; })
        .def_prop_ro("n_weights", [](const FineGrammar<Real> &g) { return g.weights.size(); })
        .def_prop_ro("n_dense", [](const FineGrammar<Real> &g) { return g.dense.size(); });
    nb::class_<Engine<Real>>(module, engine).def("parse", &parse<Real>, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
                                                     nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), unlocked());
    module.def("fine_grammar", &make_fine<Real>, nb::keep_alive<0, 3>());
    module.def("add_level", &add_level<Real>, unlocked());
    module.def("fine_chart", &fine_chart<Real>, unlocked());
    module.def("viterbi", &viterbi<Real>, unlocked());
    module.def("group_states", &group_states<Real>, unlocked());
    module.def("lanes_above", &above<Real>);
    module.def("project_tensors", &project_tensors<Real>, unlocked());
    module.def("engine", [](std::shared_ptr<CoarseGrammar> coarse, std::vector<std::shared_ptr<FineGrammar<Real>>> members,
                            std::vector<std::shared_ptr<FineGrammar<Real>>> levels) {
        return Engine<Real>{coarse, {members.begin(), members.end()}, {levels.begin(), levels.end()}};
    }, nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
}

}  // namespace

void bind_inference(nb::module_ &module) {
    nb::class_<CoarseGrammar>(module, "CoarseGrammar");
    nb::class_<Leaf>(module, "Leaf")
        .def_prop_ro("symbols", [](const Leaf &leaf) { return to_array(leaf.symbols); })
        .def_prop_ro("values", [](const Leaf &leaf) { return to_array(leaf.values); })
        .def_ro("fixed", &Leaf::fixed)
        .def_rw("kind", &Leaf::kind)
        .def("vector", &leaf_vector);
    nb::class_<Forest>(module, "Forest").def("arrays", &forest_arrays);
    nb::class_<Layer>(module, "Layer")
        .def_prop_ro("weights", [](const Layer &layer) { return to_array(layer.weights); })
        .def_prop_ro("dense", [](const Layer &layer) { return to_array(std::vector<double>(layer.dense, layer.dense + dense_weights)); });
    nb::class_<Workspace>(module, "Workspace")
        .def(nb::init<>())
        .def_prop_ro("rules_applied", [](const Workspace &w) { return w.coarse_single.rules_applied + w.coarse_double.rules_applied; })
        .def("begin", &Workspace::begin, "bytes"_a = nb::none(), "seconds"_a = nb::none())
        .def("check_time", [](const Workspace &workspace) { workspace.budget.check_time(); })
        .def("check_room", [](const Workspace &workspace, std::size_t bytes) { workspace.budget.check_room(bytes); })
        .def("poison", [](Workspace &workspace, int byte) {
            workspace.each([&](auto &buffer) { buffer.poison(static_cast<unsigned char>(byte)); });
        });
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
    module.def("coarse_grammar", &make_coarse);
    module.def("set_closing", &set_closing);
    module.def("best_tags", &best_tags, unlocked());
    module.def("leaf", &make_leaf, unlocked());
    module.def("join_leaves", &join_leaves, unlocked());
    module.def("forest", &make_forest);
    module.def("coarse_forest", &coarse_forest_of, unlocked());
    module.def("filter_forest", &filter_forest_of, unlocked());
    module.def("best_by_edges", &best_edges, unlocked());
    module.def("phrase_scores", &phrase_scores, unlocked());
    nb::class_<LayerSymbols>(module, "LayerSymbols");
    module.def("layer", &make_layer);
    module.def("layer_symbols", &make_layer_symbols);
    module.def("forest_sums", &forest_sums, unlocked());
    module.def("layer_chart", &layer_chart, unlocked());
    module.def("estimate_fits", &fits_of, unlocked());
    module.def("coarse_entries", &entries_of, unlocked());
    bind_precision<float>(module, "FineGrammarSingle", "EngineSingle");
    bind_precision<double>(module, "FineGrammarDouble", "EngineDouble");
}

}  // namespace sapwood
