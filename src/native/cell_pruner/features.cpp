#include "cell_pruner/features.hpp"

#include "chart/grammar.hpp"

namespace sapwood {

CellFeatures::CellFeatures(const int32_t *tags, const int32_t *kinds, Index n, int bits)
    : tags(tags), n(n), shift(64 - bits), left_((n + 1) * of_boundary), right_((n + 1) * of_boundary),
      begins_((n + 1) * partial_left), ends_((n + 1) * partial_right) {
    for (Index k = 0; k <= n; ++k) {
        // Tags and kinds of the two words before the boundary, and of the two behind it.
        const uint64_t before2 = seen(tags, k - 2), before = seen(tags, k - 1), after = seen(tags, k),
                       after2 = seen(tags, k + 1);
        const uint64_t kind_before = seen(kinds, k - 1), kind_after = seen(kinds, k);
        for (const bool is_left : {true, false}) {
            const uint64_t side = is_left ? 0 : 10;
            uint32_t *slots = (is_left ? left_ : right_).data() + k * of_boundary;
            slots[0] = slot(mix(mix(named(1 + side), before), after));
            slots[1] = slot(mix(mix(mix(named(2 + side), before2), before), after));
            slots[2] = slot(mix(mix(mix(named(3 + side), before), after), after2));
            slots[3] = slot(mix(named(4 + side), kind_before));
            slots[4] = slot(mix(named(5 + side), kind_after));
            slots[5] = slot(mix(mix(named(6 + side), kind_before), kind_after));
        }
        uint64_t *begin = begins_.data() + k * partial_left, *end = ends_.data() + k * partial_right;
        begin[0] = mix(named(21), after);               // the first tag and the last one
        begin[1] = mix(named(22), before);              // the tags on either side
        begin[2] = mix(named(23), after);               // the first tag and the width
        begin[3] = mix(named(24), before);              // the tag before and the width
        begin[4] = mix(mix(named(25), before), after);  // the tag before, the first one, and the one behind
        end[0] = mix(named(26), after);                 // the tag behind and the width
        end[1] = mix(named(27), before);                // the last tag and the width
        end[2] = mix(mix(named(28), before), after);    // the last tag, the one behind, and the first one
    }
}

void score_cells(const float *weights, const CellFeatures &features, Index n, float *scores) {
    std::vector<float> left(n + 1), right(n + 1);
    for (Index k = 0; k <= n; ++k)
        for (int f = 0; f < CellFeatures::of_boundary; ++f) {
            left[k] += weights[features.left(k)[f]];
            right[k] += weights[features.right(k)[f]];
        }
    uint32_t slots[CellFeatures::of_cell];
    for (Index j = 2; j <= n; ++j)
        for (Index i = 0; i < j - 1; ++i) {
            if (CellFeatures::fixed(i, j, n)) continue;
            features.cell(i, j, slots);
            float total = left[i] + right[j];
            for (const uint32_t slot : slots) total += weights[slot];
            scores[cell_of(i, j)] = total;
        }
}

}  // namespace sapwood
