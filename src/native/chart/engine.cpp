#include "chart/engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sapwood {
namespace {

// The logarithm of a scaled probability.
double log_of(double total, int64_t exponent) {
    if (!(total > 0)) return std::numeric_limits<double>::quiet_NaN();
    return std::log(total) + static_cast<double>(exponent) * std::log(2.0);
}

// The logarithm of the sentence's mean probability under the members that count, given its logarithm under each: -inf
// without a parse, no number if it is negative, which real-valued members may have. The others stand in if none of those
// has a parse.
double mixture_log_probability(const std::vector<double> &logs, const std::vector<bool> &counted) {
    for (const bool wanted : {true, false}) {
        double largest = -std::numeric_limits<double>::infinity(), total = 0;
        Index count = 0;
        for (std::size_t m = 0; m < logs.size(); ++m)
            if (counted[m] == wanted && !std::isnan(logs[m])) largest = std::max(largest, logs[m]), ++count;
        if (!std::isfinite(largest)) continue;
        for (std::size_t m = 0; m < logs.size(); ++m)
            if (counted[m] == wanted && !std::isnan(logs[m])) total += std::exp(logs[m] - largest);
        return largest + std::log(total) - std::log(static_cast<double>(count));
    }
    return std::numeric_limits<double>::quiet_NaN();
}

// Add one member's posteriors to the sums.
void add_posteriors(const double *posterior, Index size, double unseen, double *total, double *logs, uint8_t *seen) {
    for (Index x = 0; x < size; ++x) {
        const bool positive = posterior[x] > 0;
        total[x] += posterior[x];
        logs[x] += std::log(positive ? posterior[x] : unseen);
        seen[x] |= positive;
    }
}

// Turn sums into means, and logarithms of products into -inf where no member had a positive posterior.
void finish_posteriors(Index size, Index count, double *total, double *logs, const uint8_t *seen) {
    for (Index x = 0; x < size; ++x) {
        total[x] /= static_cast<double>(count);
        if (!seen[x]) logs[x] = -std::numeric_limits<double>::infinity();
    }
}

// A forest is as large as the longest sentence made it.
void trim(Forest &forest) {
    if (forest.bytes() > keep_bytes) forest = {};
}

}  // namespace

void Workspace::begin(std::optional<std::size_t> bytes, std::optional<double> seconds) {
    budget = {};
    if (bytes) budget.bytes = *bytes;
    if (seconds) {
        const double longest = 1e9;  // what a clock can hold
        budget.timed = *seconds < longest;
        const std::chrono::duration<double> allowed(std::min(*seconds, longest));
        budget.deadline = Budget::Clock::now() + std::chrono::duration_cast<Budget::Clock::duration>(allowed);
    }
    for_each_buffer([&](auto &buffer) { buffer.begin(&budget); });
    coarse_single.budget = coarse_double.budget = fine_single.budget = fine_double.budget = &budget;
    coarse_single.forest_bytes = coarse_double.forest_bytes = 0;
}

WorkspaceGuard::~WorkspaceGuard() {
    workspace.for_each_buffer([](auto &buffer) { buffer.trim(); });
    trim(workspace.first);
    trim(workspace.second);
}

bool prune_coarsely(const CoarseGrammar &grammar, const std::vector<const Leaf *> &leaves, double threshold,
                    const Constraints &constraints, Workspace &workspace) {
    // Pruning needs no more than single precision.
    if (threshold > 0) return coarse_forest(grammar, leaves, threshold, constraints, workspace.coarse_single, workspace.first);
    return coarse_forest(grammar, leaves, threshold, constraints, workspace.coarse_double, workspace.first);
}

template <class Real>
std::optional<BestTree> Engine<Real>::parse(const std::vector<const Leaf *> &leaves, const Pruning &pruning,
                                            const Constraints &constraints, Decoder decoder, const CRFView &view,
                                            Workspace &workspace) const {
    const WorkspaceGuard guard{workspace};
    if (!prune_coarsely(*coarse, leaves, pruning.threshold, constraints, workspace)) return std::nullopt;
    refine(leaves, pruning, workspace);
    if (members.size() > 1) return parse_product(leaves, pruning, decoder, view, workspace);
    const Forest &forest = workspace.first;
    FineMemory<Real> &memory = workspace.fine<Real>();
    const double total = fine_pass(*members[0], leaves, 0, forest, pruning.negligible, memory);
    if (total == 0) return std::nullopt;
    const double *nodes = memory.node_posterior.data(), *edges = memory.edge_posterior.data();
    auto symbols = view.crf ? best_of_crf({nodes, edges, nullptr, nullptr, 1}, decoder, view, workspace)
                            : best_tree(forest, *coarse, decoder, nodes, edges, workspace.decoding);
    if (symbols.empty()) return std::nullopt;
    return BestTree{std::move(symbols), log_of(total, memory.exponent[forest.top()])};
}

template <class Real>
void Engine<Real>::refine(const std::vector<const Leaf *> &leaves, const Pruning &pruning, Workspace &workspace) const {
    if (pruning.threshold == 0) return;
    FineMemory<Real> &memory = workspace.fine<Real>();
    for (std::size_t level = 0; level < levels.size(); ++level) {
        if (fine_pass(*levels[level], leaves, members.size() + level, workspace.first, pruning.negligible, memory) == 0)
            continue;
        if (filter_forest(workspace.first, coarse->n_interminals, pruning.level, memory, workspace.second))
            std::swap(workspace.first, workspace.second);
    }
}

template <class Real>
std::optional<BestTree> Engine<Real>::parse_product(const std::vector<const Leaf *> &leaves, const Pruning &pruning,
                                                    Decoder decoder, const CRFView &view, Workspace &w) const {
    const Forest &forest = w.first;
    FineMemory<Real> &memory = w.fine<Real>();
    const Index n_nodes = forest.n_nodes(), n_edges = forest.n_edges();
    double *nodes = w.total_nodes.acquire(n_nodes + 1), *log_nodes = w.log_nodes.acquire(n_nodes + 1);
    double *edges = w.total_edges.acquire(n_edges + 1), *log_edges = w.log_edges.acquire(n_edges + 1);
    uint8_t *seen_nodes = w.seen_nodes.acquire(n_nodes + 1), *seen_edges = w.seen_edges.acquire(n_edges + 1);
    std::fill_n(nodes, n_nodes, 0.0), std::fill_n(log_nodes, n_nodes, 0.0), std::fill_n(seen_nodes, n_nodes, uint8_t{0});
    std::fill_n(edges, n_edges, 0.0), std::fill_n(log_edges, n_edges, 0.0), std::fill_n(seen_edges, n_edges, uint8_t{0});
    std::vector<double> logs(members.size(), -std::numeric_limits<double>::infinity());
    Index count = 0;
    for (std::size_t member = 0; member < members.size(); ++member) {
        const double total = fine_pass(*members[member], leaves, member, forest, pruning.negligible, memory);
        if (total == 0) continue;
        add_posteriors(memory.node_posterior.data(), n_nodes, pruning.unseen, nodes, log_nodes, seen_nodes);
        add_posteriors(memory.edge_posterior.data(), n_edges, pruning.unseen, edges, log_edges, seen_edges);
        logs[member] = log_of(total, memory.exponent[forest.top()]);
        ++count;
    }
    if (!count) return std::nullopt;
    finish_posteriors(n_nodes, count, nodes, log_nodes, seen_nodes);
    finish_posteriors(n_edges, count, edges, log_edges, seen_edges);
    auto symbols = view.crf                       ? best_of_crf({nodes, edges, log_nodes, log_edges, count}, decoder, view, w)
                   : decoder == Decoder::max_rule ? best_tree_of_logs(forest, *coarse, log_nodes, log_edges, w.decoding)
                                                  : best_tree(forest, *coarse, decoder, nodes, edges, w.decoding);
    if (symbols.empty()) return std::nullopt;
    return BestTree{std::move(symbols), mixture_log_probability(logs, counted)};
}

template <class Real>
std::vector<int32_t> Engine<Real>::best_of_crf(const GrammarPosteriors &posteriors, Decoder decoder, const CRFView &view,
                                               Workspace &w) const {
    run_crf(*view.crf, w.first, posteriors, view.sentence, w.fine_double, w.crf);
    return best_tree(w.crf.small.forest, *coarse, decoder, w.crf.node_marginal.data(), w.crf.edge_marginal.data(), w.decoding);
}

template struct Engine<float>;
template struct Engine<double>;

}  // namespace sapwood
