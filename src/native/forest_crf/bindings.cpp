// Bindings of the forest CRF at parsing time; those of its training are in `gradient.cpp`.
#include <algorithm>
#include <bit>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "chart/engine.hpp"
#include "core/copies.hpp"
#include "core/module.hpp"
#include "forest_crf/forest_crf.hpp"

namespace sapwood {
namespace {

std::shared_ptr<CRFSymbols> make_crf_symbols(Vector<const uint64_t> symbol_key, Vector<const uint64_t> tag_key,
                                             Vector<const uint64_t> rule_key, Vector<const double> root,
                                             Vector<const int32_t> column, Index n_interminals) {
    check_shape("tag_key", tag_key, symbol_key.size());
    check_shape("root", root, symbol_key.size());
    check_shape("column", column, symbol_key.size());
    auto made = std::make_shared<CRFSymbols>();
    made->n_interminals = n_interminals;
    made->symbol_key = flat(symbol_key);
    made->tag_key = flat(tag_key);
    made->rule_key = flat(rule_key);
    made->column = flat(column);
    for (Index s = 0; s < root.size(); ++s) made->is_root.push_back(root[s] > 0);
    return made;
}

std::shared_ptr<ForestCRF> make_crf(Vector<const float> weights, Vector<const double> dense, double threshold, Index groups,
                                    std::shared_ptr<CRFSymbols> symbols) {
    check_shape("dense", dense, static_cast<Index>(dense_weights));
    auto made = std::make_shared<ForestCRF>();
    made->weights = flat(weights);
    made->bits = std::countr_zero(static_cast<uint64_t>(weights.size()));
    made->groups = static_cast<uint32_t>(groups);
    made->threshold = threshold;
    made->symbols = symbols;
    std::copy_n(dense.data, dense_weights, made->dense);
    return made;
}

// What a CRF makes of a chart: the forest that it looks at and its nodes' and edges' old numbers; scores of edges, leaves
// and roots; marginals of nodes and edges, and the logarithm of the total, -inf if there is no tree.
auto crf_chart(const ForestCRF &crf, const Forest &forest, Vector<const double> nodes, Vector<const double> edges,
               std::optional<Vector<const double>> log_nodes, std::optional<Vector<const double>> log_edges, Index members,
               Matrix<const uint32_t> words, Matrix<const float> spans, Matrix<const float> tags, Workspace &workspace) {
    CRFMemory &m = workspace.crf;
    const GrammarPosteriors posteriors = posteriors_of(forest, nodes, edges, log_nodes, log_edges, members);
    const SentenceView sentence{words, spans, tags};
    sentence.check(forest.n);
    const double total = run_crf(crf, forest, posteriors, sentence, workspace.fine_double, m);
    const Forest &f = m.small.forest;
    return std::tuple{Forest(f),
                      to_array(m.small.old_nodes),
                      to_array(m.small.old_edges),
                      array_of(m.edge_score.data(), f.n_edges()),
                      array_of(m.leaf_score.data(), f.n_nodes()),
                      array_of(m.root_score.data(), f.n_nodes()),
                      array_of(m.node_marginal.data(), f.n_nodes()),
                      array_of(m.edge_marginal.data(), f.n_edges()),
                      total};
}

// The logarithm of the total of all trees' exponentiated scores, and marginals of nodes and edges.
auto forest_sums(const Forest &f, Vector<const double> edge_score, Vector<const double> leaf_score,
                 Vector<const double> root_score) {
    check_shape("edge_score", edge_score, f.n_edges());
    check_shape("leaf_score", leaf_score, f.n_nodes());
    check_shape("root_score", root_score, f.n_nodes());
    Array<double> inside(f.n_nodes()), nodes(f.n_nodes()), edges(f.n_edges());
    const double total =
        sum_forest(f, edge_score.data, leaf_score.data, root_score.data, inside.data.get(), nodes.data.get(), edges.data.get());
    return std::tuple{total, std::move(nodes), std::move(edges)};
}

// Numbers that Python uses, too.
void bind_numbers(nb::module_ &module) {
    module.attr("WORD_COLUMNS") = static_cast<int>(word_columns);
    module.attr("LONGEST_ENDING") = beginnings_from - endings_from;
    module.attr("LONGEST_BEGINNING") = class_column - beginnings_from;
    nb::enum_<FeatureGroup>(module, "FeatureGroup", nb::is_arithmetic())
        .value("words", of_words)
        .value("endings", of_endings)
        .value("tags", of_tags)
        .value("spelling", of_spelling)
        .value("lengths", of_lengths)
        .value("rules", of_rules)
        .value("splits", of_splits)
        .value("pairs", of_pairs)
        .value("posteriors", of_posteriors)
        .value("classes", of_classes);
    nb::enum_<DenseWeight>(module, "DenseWeight", nb::is_arithmetic())
        .value("edge", edge_weight)
        .value("parent", parent_weight)
        .value("leaf", leaf_weight)
        .value("root", root_weight)
        .value("product_edge", static_cast<DenseWeight>(posterior_kinds + edge_weight))
        .value("product_parent", static_cast<DenseWeight>(posterior_kinds + parent_weight))
        .value("product_leaf", static_cast<DenseWeight>(posterior_kinds + leaf_weight))
        .value("product_root", static_cast<DenseWeight>(posterior_kinds + root_weight))
        .value("other_inner", other_inner)
        .value("other_leaf", other_leaf);
}

}  // namespace

void bind_crf(nb::module_ &module) {
    bind_numbers(module);
    nb::class_<ForestCRF>(module, "ForestCRF")
        .def_prop_ro("weights", [](const ForestCRF &crf) { return to_array(crf.weights); })
        .def_prop_ro("dense",
                     [](const ForestCRF &crf) { return to_array(std::vector<double>(crf.dense, crf.dense + dense_weights)); });
    nb::class_<CRFSymbols>(module, "CRFSymbols");
    module.def("crf", &make_crf, "weights"_a, "dense"_a, "threshold"_a, "groups"_a, "symbols"_a);
    module.def("crf_symbols", &make_crf_symbols, "symbol_key"_a, "tag_key"_a, "rule_key"_a, "root"_a, "column"_a,
               "n_interminals"_a);
    module.def("forest_sums", &forest_sums, "forest"_a, "edge_score"_a, "leaf_score"_a, "root_score"_a, unlocked());
    module.def("crf_chart", &crf_chart, "crf"_a, "forest"_a, "nodes"_a, "edges"_a, "log_nodes"_a.none(), "log_edges"_a.none(),
               "members"_a, "words"_a, "spans"_a, "tags"_a, "workspace"_a, unlocked());
}

}  // namespace sapwood
