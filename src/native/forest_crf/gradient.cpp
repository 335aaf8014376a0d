// Training of the forest CRF: gradient of the gold tree's log-probability, and updates of the weights by it.
#include <algorithm>
#include <cmath>
#include <memory>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "chart/decode.hpp"
#include "chart/engine.hpp"
#include "core/module.hpp"
#include "forest_crf/forest_crf.hpp"

namespace sapwood {
namespace {

// A forest to learn from, with the tree in it that is nearest to the right one.
struct CRFSentence {
    CRFForest small;
    std::vector<uint32_t> words;  // (n, word_columns)
    std::vector<uint8_t> gold;    // (units): nodes, groups, edges
    Index root;

    Matrix<const uint32_t> table() const { return {words.data(), {small.forest.n, word_columns}}; }
};

// The derivative of the loss, minus the logarithm of the right tree's probability: by places of features (some more than
// once) and by dense weights.
struct CRFGradient {
    std::vector<uint32_t> places;
    std::vector<float> values;
    double dense[dense_weights] = {};
    double loss = 0;
};

// Sums of gradients and of their squares (Duchi, Hazan and Singer 2011: AdaGrad with regularised dual averaging).
struct CRFTrainer {
    std::vector<float> sum, squares, batch;
    double dense_sum[dense_weights] = {}, dense_squares[dense_weights] = {}, dense_start[dense_weights] = {};
    double rate, dense_rate, lasso, ridge;
    int64_t steps = 0;

    float weight(uint32_t place) const {
        const double u = sum[place], excess = std::abs(u) - lasso * static_cast<double>(steps);
        if (!(excess > 0)) return 0.0f;
        const double scale = 1e-6 + std::sqrt(static_cast<double>(squares[place])) + rate * ridge * static_cast<double>(steps);
        return static_cast<float>((u > 0 ? -rate : rate) * excess / scale);
    }

    // Take the sums of gradients that give the weights of a CRF after so many steps; squares of gradients are unknown.
    void continue_from(const ForestCRF &crf, int64_t before) {
        steps = before;
        if (before == 0) return;
        const double penalties = lasso * static_cast<double>(before), scale = rate * ridge * static_cast<double>(before);
        for (std::size_t place = 0; place < sum.size(); ++place) {
            const double w = crf.weights[place];
            if (w != 0.0) sum[place] = static_cast<float>(-w * (1e-6 + scale) / rate + (w > 0 ? -penalties : penalties));
        }
    }
};

std::shared_ptr<CRFSentence> make_sentence(const ForestCRF &crf, const Forest &forest, const GrammarPosteriors &posteriors,
                                           const SentenceView &sentence, Vector<const double> worth, Workspace &workspace) {
    auto made = std::make_shared<CRFSentence>();
    CRFSentence &s = *made;
    select_edges(crf, forest, posteriors, sentence, workspace.fine_double, s.small);
    s.words.assign(sentence.words.data, sentence.words.data + sentence.words.size());
    const Forest &f = s.small.forest;
    // Of trees with as many right nodes the most probable one.
    std::vector<double> leaf(f.n_nodes()), gain(f.n_nodes()), edge(f.n_edges()), best(f.n_nodes());
    std::vector<int64_t> choice(f.n_nodes());
    for (Index v = 0; v < f.n_nodes(); ++v) {
        const bool is_leaf = f.node_symbol[v] >= s.small.symbols->n_interminals;
        gain[v] = worth[s.small.old_nodes[v]] + (is_leaf ? 1e-4 * s.small.mean_nodes[v] : 0.0);
        leaf[v] = is_leaf ? gain[v] : -std::numeric_limits<double>::infinity();
    }
    for (Index e = 0; e < f.n_edges(); ++e) edge[e] = 1e-4 * s.small.mean_edges[e];
    best_by_edges(f, leaf.data(), edge.data(), gain.data(), best.data(), choice.data());
    s.root = -1;
    for (Index v = f.first_root(); v < f.end_of_roots(); ++v)
        if (s.small.can_be_root(v) && std::isfinite(best[v]) && (s.root < 0 || best[v] > best[s.root])) s.root = v;
    if (s.root < 0) return nullptr;
    s.gold.assign(f.n_nodes() + f.n_groups() + f.n_edges(), 0);
    std::vector<Index> waiting{s.root};
    while (!waiting.empty()) {
        const Index v = waiting.back();
        waiting.pop_back();
        s.gold[v] = 1;
        if (choice[v] < 0) continue;
        s.gold[f.n_nodes() + f.n_groups() + choice[v]] = 1;
        waiting.push_back(f.children[2 * choice[v]]);
        waiting.push_back(f.children[2 * choice[v] + 1]);
    }
    for (Index g = 0; g < f.n_groups(); ++g)
        for (Index e = f.group_offsets[g]; e < f.group_offsets[g + 1]; ++e)
            s.gold[f.n_nodes() + g] |= s.gold[f.n_nodes() + f.n_groups() + e];
    return made;
}

std::shared_ptr<CRFGradient> gradient(const ForestCRF &crf, const CRFSentence &s, Workspace &workspace) {
    auto made = std::make_shared<CRFGradient>();
    CRFGradient &result = *made;
    CRFMemory &m = workspace.crf;
    const Forest &f = s.small.forest;
    const Index n_nodes = f.n_nodes(), n_groups = f.n_groups(), n_edges = f.n_edges();
    score_forest(crf, s.small, s.table(), m);
    double *nodes = m.node_marginal.acquire(n_nodes + 1), *edges = m.edge_marginal.acquire(n_edges + 1);
    const double total = sum_forest(f, m.edge_score.data(), m.leaf_score.data(), m.root_score.data(),
                                    m.inside.acquire(n_nodes + 1), nodes, edges);
    result.loss = total - m.root_score[s.root];
    const auto emit = [&](Index unit, double difference) {
        if (std::abs(difference) < 1e-5) return;
        for (Index x = m.bounds[unit]; x < m.bounds[unit + 1]; ++x) {
            result.places.push_back(m.places[x]);
            result.values.push_back(static_cast<float>(difference));
        }
    };
    for (Index v = 0; v < n_nodes; ++v) {
        const double difference = nodes[v] - s.gold[v];
        const auto add = [&](int kind, double value) { result.dense[kind] += difference * value; };
        if (f.node_symbol[v] >= s.small.symbols->n_interminals && s.gold[v]) result.loss -= m.leaf_score[v];
        emit(v, difference);
        s.small.node_values(v, add);
        if (s.small.can_be_root(v)) s.small.root_values(v, add);
    }
    for (Index g = 0; g < n_groups; ++g) {
        double sum = -static_cast<double>(s.gold[n_nodes + g]);
        for (Index e = f.group_offsets[g]; e < f.group_offsets[g + 1]; ++e) {
            const Index unit = n_nodes + n_groups + e;
            const double difference = edges[e] - s.gold[unit];
            if (s.gold[unit]) result.loss -= m.edge_score[e];
            emit(unit, difference);
            s.small.edge_values(e, [&](int kind, double value) { result.dense[kind] += difference * value; });
            sum += edges[e];
        }
        emit(n_nodes + g, sum);
    }
    return made;
}

void update(CRFTrainer &t, ForestCRF &crf, const std::vector<std::shared_ptr<CRFGradient>> &gradients) {
    std::vector<uint32_t> touched;
    double dense[dense_weights] = {};
    for (const auto &one : gradients) {
        for (std::size_t x = 0; x < one->places.size(); ++x) {
            float &value = t.batch[one->places[x]];
            if (value == 0.0f) touched.push_back(one->places[x]);
            value += one->values[x];
        }
        for (int k = 0; k < dense_weights; ++k) dense[k] += one->dense[k];
    }
    ++t.steps;
    for (const uint32_t place : touched) {
        const float value = t.batch[place];
        if (value == 0.0f) continue;  // there twice
        t.batch[place] = 0.0f;
        t.sum[place] += value;
        t.squares[place] += value * value;
        crf.weights[place] = t.weight(place);
    }
    for (int k = 0; k < dense_weights; ++k) {
        t.dense_sum[k] += dense[k];
        t.dense_squares[k] += dense[k] * dense[k];
        if (t.dense_squares[k] > 0)
            crf.dense[k] = t.dense_start[k] - t.dense_rate * t.dense_sum[k] / std::sqrt(t.dense_squares[k]);
    }
}

}  // namespace

void bind_crf_training(nb::module_ &module) {
    nb::class_<CRFSentence>(module, "CRFSentence")
        .def_prop_ro("n_edges", [](const CRFSentence &s) { return s.small.forest.n_edges(); })
        .def_prop_ro("n_nodes", [](const CRFSentence &s) { return s.small.forest.n_nodes(); })
        .def_prop_ro("forest", [](const CRFSentence &s) { return s.small.forest; })
        .def_prop_ro("old_nodes", [](const CRFSentence &s) { return to_array(s.small.old_nodes); })
        .def_prop_ro("gold", [](const CRFSentence &s) { return to_array(s.gold); });
    nb::class_<CRFGradient>(module, "CRFGradient")
        .def_prop_ro("places", [](const CRFGradient &g) { return to_array(g.places); })
        .def_prop_ro("values", [](const CRFGradient &g) { return to_array(g.values); })
        .def_prop_ro("dense",
                     [](const CRFGradient &g) { return to_array(std::vector<double>(g.dense, g.dense + dense_weights)); })
        .def_ro("loss", &CRFGradient::loss);
    nb::class_<CRFTrainer>(module, "CRFTrainer").def_ro("steps", &CRFTrainer::steps);
    module.def(
        "crf_sentence",
        [](const ForestCRF &crf, const Forest &forest, Vector<const double> nodes, Vector<const double> edges,
           std::optional<Vector<const double>> log_nodes, std::optional<Vector<const double>> log_edges, Index members,
           Matrix<const uint32_t> words, Matrix<const float> spans, Matrix<const float> tags, Vector<const double> worth,
           Workspace &workspace) {
            const GrammarPosteriors posteriors = posteriors_of(forest, nodes, edges, log_nodes, log_edges, members);
            const SentenceView sentence{words, spans, tags};
            sentence.check(forest.n);
            check_shape("worth", worth, forest.n_nodes());
            return make_sentence(crf, forest, posteriors, sentence, worth, workspace);
        },
        "crf"_a, "forest"_a, "nodes"_a, "edges"_a, "log_nodes"_a.none(), "log_edges"_a.none(), "members"_a, "words"_a,
        "spans"_a, "tags"_a, "worth"_a, "workspace"_a, unlocked());
    module.def("crf_gradient", &gradient, "crf"_a, "sentence"_a, "workspace"_a, unlocked());
    module.def(
        "crf_trainer",
        [](const ForestCRF &crf, double rate, double dense_rate, double lasso, double ridge, int64_t steps) {
            auto trainer = std::make_shared<CRFTrainer>();
            trainer->rate = rate;
            trainer->dense_rate = dense_rate;
            trainer->lasso = lasso;
            trainer->ridge = ridge;
            for (auto *values : {&trainer->sum, &trainer->squares, &trainer->batch}) values->assign(crf.weights.size(), 0.0f);
            std::copy_n(crf.dense, dense_weights, trainer->dense_start);
            trainer->continue_from(crf, steps);
            return trainer;
        },
        "crf"_a, "rate"_a, "dense_rate"_a, "lasso"_a, "ridge"_a, "steps"_a = 0);
    module.def("crf_update", &update, "trainer"_a, "crf"_a, "gradients"_a, unlocked());
    module.def(
        "crf_finish",
        [](const CRFTrainer &t, ForestCRF &crf) {
            for (std::size_t place = 0; place < crf.weights.size(); ++place)
                crf.weights[place] = t.weight(static_cast<uint32_t>(place));
        },
        "trainer"_a, "crf"_a, unlocked());
}

}  // namespace sapwood
