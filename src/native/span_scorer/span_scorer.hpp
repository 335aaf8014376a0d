// The span scorer (`sapwood.model.span_scorer`) as the parser sees it.
#pragma once

#include <vector>

#include "core/memory.hpp"
#include "core/panels.hpp"

namespace sapwood {

// What it finds in a sentence, and the memory that it works in.
struct SpanScorerMemory {
    Buffer<float> spans, tags;  // (cells, labels), (n, tags)
    Buffer<int32_t> cells;      // what pruning leaves of them
    Buffer<float> x, gates, skip, cell, activation, first_layer, gaps, left, right, span;
    Buffer<double> sums, marginal;

    template <class Visit> void for_each_buffer(Visit visit) {
        for (auto *b : {&spans, &tags, &x, &gates, &skip, &cell, &activation, &first_layer, &gaps, &left, &right, &span})
            visit(*b);
        for (auto *b : {&sums, &marginal}) visit(*b);
        visit(cells);
    }
};

// Dimensions and weights, the matrices laid out for products.
class SpanScorer {
  public:
    Index input, hidden, layers, span_hidden, labels, tags, encoder;

    // `weights` are those that `sapwood.model.span_scorer.Dims.weights` lists, one after the other; `embeddings` stay where
    // they are. Raises ValueError if there are too few or too many.
    SpanScorer(Matrix<const float> embeddings, Vector<const float> weights, Index hidden, Index layers, Index span_hidden,
               Index labels, Index tags, Index encoder);

    // Fill `spans` with the scores of labels over all cells of two words or more, and `tags` with the logarithms of the
    // tags' probabilities, for `features` (n + 2, per word) of the words and of the ends of the sentence. `vectors` (n,
    // encoder) are those of a pretrained encoder, if there is one.
    void score(Matrix<const int32_t> features, Matrix<const float> vectors, SpanScorerMemory &memory) const;

  private:
    struct Layer {
        Panels gates, skip;
        std::vector<float> bias, gain, shift;
    };
    Matrix<const float> embeddings;
    std::vector<float> gain, shift, tag_bias, ends_bias, span_gain, span_shift, label_bias;
    std::vector<Layer> layer;
    Panels encoder_weights, tag_weights, left_weights, right_weights, label_weights;
};

// Fill `memory.cells` with what the scores of labels over cells (cells, labels) make of the spans of n words: forbidden where
// fewer than `threshold` of all binary trees, weighted by their scores, have a node, else free.
void prune_spans(Matrix<const float> scores, Index n, double threshold, SpanScorerMemory &memory);

}  // namespace sapwood
