// From the words of a sentence to its tree, in one call.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "chart/coarse/coarse.hpp"
#include "chart/decode.hpp"
#include "chart/fine/fine.hpp"
#include "chart/grammar.hpp"
#include "forest_crf/forest_crf.hpp"
#include "span_scorer/span_scorer.hpp"

namespace sapwood {

// Memory of one thread.
struct Workspace {
    CoarseMemory<float> coarse_single;
    CoarseMemory<double> coarse_double;
    FineMemory<float> fine_single;
    FineMemory<double> fine_double;
    DecodeMemory decoding;
    CRFMemory crf;
    SpanScorerMemory span_scorer;
    Forest first, second;
    // Sums over the members of an ensemble: of posteriors, of their logarithms, and whether any was positive.
    Buffer<double> total_nodes, log_nodes, total_edges, log_edges;
    Buffer<uint8_t> seen_nodes, seen_edges;
    Budget budget;

    Workspace() = default;
    Workspace(const Workspace &) = delete;  // its parts know where its budget is

    template <class Real> FineMemory<Real> &fine() {
        if constexpr (std::is_same_v<Real, float>) return fine_single;
        else return fine_double;
    }
    template <class Visit> void for_each_buffer(Visit visit) {
        coarse_single.for_each_buffer(visit), coarse_double.for_each_buffer(visit), fine_single.for_each_buffer(visit),
            fine_double.for_each_buffer(visit);
        decoding.for_each_buffer(visit);
        crf.for_each_buffer(visit);
        span_scorer.for_each_buffer(visit);
        for (auto *b : {&total_nodes, &log_nodes, &total_edges, &log_edges}) visit(*b);
        for (auto *b : {&seen_nodes, &seen_edges}) visit(*b);
    }
    // Begin a sentence that may take so many bytes and seconds; what was left of another one makes no difference.
    void begin(std::optional<std::size_t> bytes, std::optional<double> seconds);
};

// After the sentence, however it ends: pieces of memory that are too large to keep are given back.
struct WorkspaceGuard {
    Workspace &workspace;
    ~WorkspaceGuard();
};

// How much is pruned: edges below `threshold` by the coarse grammar and below `level` by finer versions; nodes with a
// posterior of `negligible` or less are not expanded; what a member gives no posterior counts as `unseen` in a product.
struct Pruning {
    double threshold, level, negligible, unseen;
};

// The symbols of a tree's nodes in preorder, and the logarithm of the sentence's probability (no number if that is
// negative, as real-valued grammars can have it).
struct BestTree {
    std::vector<int32_t> symbols;
    double log_probability;
};

// A CRF, which may be missing (null), and the words as it sees them.
struct CRFView {
    const ForestCRF *crf;
    SentenceView sentence;
};

// Fill `workspace.first` with what the coarse grammar leaves; false if it has no parse.
bool prune_coarsely(const CoarseGrammar &grammar, const std::vector<const Leaf *> &leaves, double threshold,
                    const Constraints &constraints, Workspace &workspace);

// One or several grammars over the same coarse rules. Rows of leaves are the members', then the levels': coarser
// versions of the first member, the coarsest first. Members that are `counted` define the probability of a sentence.
template <class Real> struct Engine {
    std::shared_ptr<const CoarseGrammar> coarse;
    std::vector<std::shared_ptr<const FineGrammar<Real>>> members, levels;
    std::vector<bool> counted;

    std::optional<BestTree> parse(const std::vector<const Leaf *> &leaves, const Pruning &pruning,
                                  const Constraints &constraints, Decoder decoder, const CRFView &view,
                                  Workspace &workspace) const;

  private:
    void refine(const std::vector<const Leaf *> &leaves, const Pruning &pruning, Workspace &workspace) const;
    std::optional<BestTree> parse_product(const std::vector<const Leaf *> &leaves, const Pruning &pruning, Decoder decoder,
                                          const CRFView &view, Workspace &workspace) const;
    std::vector<int32_t> best_of_crf(const GrammarPosteriors &posteriors, Decoder decoder, const CRFView &view,
                                     Workspace &workspace) const;
};

}  // namespace sapwood
