// Cell pruner: closes cells of the chart before any rule is applied, where the words around make a phrase improbable.
//
// A cell's score is the sum of the weights of its features, each a slot of a table of `2^bits` by its hash. Features see the
// tags and kinds of words at both ends of the span, inside and outside, and how wide it is. `sapwood.model.cell_pruner` says
// what they are.
#pragma once

#include <vector>

#include "core/views.hpp"

namespace sapwood {

struct CellPruner {
    int bits;
    float threshold;             // cells that score less are closed
    std::vector<float> weights;  // (2^bits)
};

// The slots of the features of one sentence's cells. Those of a boundary are the same for all cells that begin, or end, there.
class CellFeatures {
  public:
    static constexpr int of_boundary = 6, of_cell = 9;

    CellFeatures(const int32_t *tags, const int32_t *kinds, Index n, int bits);

    const uint32_t *left(Index i) const { return left_.data() + i * of_boundary; }
    const uint32_t *right(Index j) const { return right_.data() + j * of_boundary; }
    void cell(Index i, Index j, uint32_t *slots) const {
        const uint64_t width = bucket(j - i);
        const uint64_t *begin = begins_.data() + i * partial_left, *end = ends_.data() + j * partial_right;
        slots[0] = slot(mix(named(20), width));
        slots[1] = slot(mix(begin[0], seen(tags, j - 1)));
        slots[2] = slot(mix(begin[1], seen(tags, j)));
        slots[3] = slot(mix(begin[2], width));
        slots[4] = slot(mix(begin[3], width));
        slots[5] = slot(mix(begin[4], seen(tags, j)));
        slots[6] = slot(mix(end[0], width));
        slots[7] = slot(mix(end[1], width));
        slots[8] = slot(mix(end[2], seen(tags, i)));
    }

    // Whether a cell is never closed, and has no features: a word, or the whole sentence.
    static bool fixed(Index i, Index j, Index n) { return j - i < 2 || j - i == n; }

  private:
    static constexpr int partial_left = 5, partial_right = 3;
    const int32_t *tags;
    const Index n;
    const int shift;
    std::vector<uint32_t> left_, right_;
    std::vector<uint64_t> begins_, ends_;  // what features of a cell have in common that begin, or end, at the same place

    // Where the hash of a feature begins, by the number of its template.
    static uint64_t named(uint64_t number) { return number * 0xD6E8FEB86659FD93u; }
    static uint64_t mix(uint64_t hash, uint64_t value) {
        hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
        return hash ^ hash >> 29;
    }
    static uint64_t bucket(Index width) { return (width < 12 ? width : 12) + (width >= 20) + (width >= 30); }
    uint32_t slot(uint64_t hash) const { return static_cast<uint32_t>(hash >> shift); }
    // What is at a place, which may be before the sentence or behind it.
    uint64_t seen(const int32_t *values, Index k) const {
        return k < 0 ? 1 : k >= n ? 2 : static_cast<uint64_t>(values[k]) + 3;
    }
};

// Scores of all cells, in the order of the chart; `fixed` ones are left as they are.
void score_cells(const float *weights, const CellFeatures &features, Index n, float *scores);

}  // namespace sapwood
