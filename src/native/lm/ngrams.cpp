// N-grams of all orders in one tree.
//
// They stand order after order, in each order sorted, and are known by their places. `words[x]` is the last word; the
// n-grams that go on from `x` by one word stand at `starts[x]` to `starts[x + 1]`. Of order 1 there is one for each id,
// at the place of its number.
#include <algorithm>
#include <vector>

#include "core/views.hpp"
#include "lm/lm.hpp"

namespace sapwood {
namespace {

// Return where the n-gram at `place` goes on with a word, or -1.
Index step(Vector<const int32_t> words, Vector<const int64_t> starts, Index place, int32_t word) {
    const int32_t *begin = words.data + starts[place], *end = words.data + starts[place + 1];
    const int32_t *found = std::lower_bound(begin, end, word);
    return found < end && *found == word ? found - words.data : -1;
}

// Return where each of the `ngrams` (n, k) is, or -1; quick if neighbours begin with the same words.
Array<int64_t> locate_ngrams(Vector<const int32_t> words, Vector<const int64_t> starts, Matrix<const int32_t> ngrams) {
    const Index n = ngrams.shape[0], k = ngrams.shape[1];
    Array<int64_t> places(n);
    std::vector<Index> path(static_cast<std::size_t>(k), -1);
    for (Index x = 0; x < n; ++x) {
        const int32_t *ngram = ngrams.row(x);
        Index d = 0;
        if (x > 0)
            while (d < k && ngram[d] == ngrams(x - 1, d)) ++d;
        for (; d < k; ++d) {
            if (d == 0) path[0] = ngram[0];
            else path[d] = path[d - 1] < 0 ? -1 : step(words, starts, path[d - 1], ngram[d]);
        }
        places[x] = path[k - 1];
    }
    return places;
}

// Return the log-probability of each of `ids[first:]` given those before, at most `order - 1` of them.
//
// An n-gram that is in the tree has the probability that is there; another has that of its last words but one fewer,
// times the weight of the context. `begin` is an id that is not predicted, but begins a new sequence (-1: none).
Array<double> score_ngrams(Vector<const int32_t> ids, Index first, Index order, int32_t begin, Vector<const int32_t> words,
                           Vector<const int64_t> starts, Vector<const double> log_probabilities,
                           Vector<const double> log_backoffs) {
    Array<double> result(ids.size() - first);
    std::vector<Index> state(static_cast<std::size_t>(order) + 1, -1), fresh = state;  // where the last m words are
    for (Index x = 0; x < ids.size(); ++x) {
        const int32_t word = ids[x];
        if (word == begin) {
            std::fill(state.begin(), state.end(), -1);
            if (order > 1) state[1] = word;
            if (x >= first) result[x - first] = 0.0;
            continue;
        }
        fresh[1] = word;
        Index longest = 1;
        for (Index m = 2; m <= order; ++m) {
            fresh[m] = state[m - 1] < 0 ? -1 : step(words, starts, state[m - 1], word);
            if (fresh[m] >= 0) longest = m;
        }
        if (x >= first) {
            double value = log_probabilities[fresh[longest]];
            for (Index m = longest; m < order; ++m)
                if (state[m] >= 0) value += log_backoffs[state[m]];
            result[x - first] = value;
        }
        std::swap(state, fresh);
    }
    return result;
}

}  // namespace

void bind_ngrams(nb::module_ &module) {
    module.def("locate_ngrams", &locate_ngrams, "words"_a, "starts"_a, "ngrams"_a, unlocked());
    module.def("score_ngrams", &score_ngrams, "ids"_a, "first"_a, "order"_a, "begin"_a, "words"_a, "starts"_a,
               "log_probabilities"_a, "log_backoffs"_a, unlocked());
}

}  // namespace sapwood
