// Classes of words that make pairs of words most probable, by exchange.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/records.hpp"
#include "core/views.hpp"
#include "lm/lm.hpp"

namespace sapwood {
namespace {

// Counts of pairs of words, by their first word and by their second one.
struct Pairs {
    Vector<const int64_t> next_offsets, before_offsets;  // (words + 1)
    Vector<const int32_t> next, before;                  // (pairs): the other word
    Vector<const double> next_count, before_count;       // (pairs)

    static constexpr auto fields() {
        return std::make_tuple(field("next_offsets", &Pairs::next_offsets), field("before_offsets", &Pairs::before_offsets),
                               field("next", &Pairs::next), field("before", &Pairs::before),
                               field("next_count", &Pairs::next_count), field("before_count", &Pairs::before_count));
    }
};

double weighed(double x) { return x > 0 ? x * std::log(x) : 0.0; }

// What a word is next to: how often it stands before and behind words of each class, itself not counted.
struct Company {
    std::vector<double> next, before;
    std::vector<int32_t> next_classes, before_classes;
    double n_next = 0, n_before = 0, itself = 0;

    void read(const Pairs &pairs, Index word, Vector<const int32_t> classes) {
        for (int32_t c : next_classes) next[c] = 0;
        for (int32_t c : before_classes) before[c] = 0;
        next_classes.clear();
        before_classes.clear();
        n_next = n_before = itself = 0;
        for (Index at = pairs.next_offsets[word]; at < pairs.next_offsets[word + 1]; ++at) {
            const double count = pairs.next_count[at];
            if (pairs.next[at] == word) itself += count;
            else {
                const int32_t c = classes[pairs.next[at]];
                if (next[c] == 0) next_classes.push_back(c);
                next[c] += count;
                n_next += count;
            }
        }
        for (Index at = pairs.before_offsets[word]; at < pairs.before_offsets[word + 1]; ++at) {
            if (pairs.before[at] == word) continue;
            const int32_t c = classes[pairs.before[at]];
            if (before[c] == 0) before_classes.push_back(c);
            before[c] += pairs.before_count[at];
            n_before += pairs.before_count[at];
        }
    }
};

// Take each word out of its class and put it where the gain is largest; returns how many have moved.
//
// The gain is that of the logarithm of the probability of all pairs, `sum N(c, d) log N(c, d) - sum N(c .) log N(c .) -
// sum N(. d) log N(. d)`, and of the words' spellings: a class draws one for each of its words, from a distribution with
// a Dirichlet prior of `prior` for each spelling. Words are taken in the order of their numbers, from `first` on; those
// before stay where they are, in classes that are no word's choice (from `open` on).
Index exchange_words(const Pairs &pairs, Index first, Index open, Index n_classes, Vector<const int32_t> spelling,
                     Index n_spellings, double prior, Vector<int32_t> classes) {
    const Index words = classes.size();
    std::vector<double> together(n_classes * n_classes), before(n_classes), behind(n_classes);
    std::vector<double> spelled(n_classes * n_spellings), sizes(n_classes);
    for (Index word = 0; word < words; ++word) {
        const Index c = classes[word];
        for (Index at = pairs.next_offsets[word]; at < pairs.next_offsets[word + 1]; ++at) {
            const Index d = classes[pairs.next[at]];
            together[c * n_classes + d] += pairs.next_count[at];
            before[c] += pairs.next_count[at];
            behind[d] += pairs.next_count[at];
        }
        spelled[c * n_spellings + spelling[word]] += 1, sizes[c] += 1;
    }
    Company company;
    company.next.resize(n_classes), company.before.resize(n_classes);
    const auto move = [&](Index word, Index c, double sign) {
        for (int32_t d : company.next_classes) together[c * n_classes + d] += sign * company.next[d];
        for (int32_t d : company.before_classes) together[d * n_classes + c] += sign * company.before[d];
        together[c * n_classes + c] += sign * company.itself;
        before[c] += sign * (company.n_next + company.itself);
        behind[c] += sign * (company.n_before + company.itself);
        spelled[c * n_spellings + spelling[word]] += sign, sizes[c] += sign;
    };
    const auto gain = [&](Index word, Index c) {
        double total = 0;
        for (int32_t d : company.next_classes) {
            if (d == c) continue;
            const double count = together[c * n_classes + d];
            total += weighed(count + company.next[d]) - weighed(count);
        }
        for (int32_t d : company.before_classes) {
            if (d == c) continue;
            const double count = together[d * n_classes + c];
            total += weighed(count + company.before[d]) - weighed(count);
        }
        const double own = together[c * n_classes + c];
        total += weighed(own + company.next[c] + company.before[c] + company.itself) - weighed(own);
        total -= weighed(before[c] + company.n_next + company.itself) - weighed(before[c]);
        total -= weighed(behind[c] + company.n_before + company.itself) - weighed(behind[c]);
        const double alike = spelled[c * n_spellings + spelling[word]];
        return total + std::log((alike + prior) / (sizes[c] + prior * n_spellings));
    };
    Index moved = 0;
    for (Index word = first; word < words; ++word) {
        const Index old = classes[word];
        company.read(pairs, word, classes);
        move(word, old, -1);
        Index best = old;
        double most = gain(word, old) + 1e-9;  // where it is as good elsewhere, it stays
        for (Index c = 0; c < open; ++c)
            if (c != old)
                if (const double found = gain(word, c); found > most) most = found, best = c;
        move(word, best, 1);
        classes[word] = static_cast<int32_t>(best);
        moved += best != old;
    }
    return moved;
}

}  // namespace

void bind_exchange(nb::module_ &module) {
    module.def("exchange_words", &exchange_words, "pairs"_a, "first"_a, "open"_a, "n_classes"_a, "spelling"_a, "n_spellings"_a,
               "prior"_a, "classes"_a, unlocked());
}

}  // namespace sapwood
