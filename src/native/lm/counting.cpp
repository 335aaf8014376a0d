// Counting n-grams: pack them into integers, divide them by first word, sort, and count what is equal.
//
// An n-gram of the longest order is packed into 64-bit columns, `bits` a word and as many words a column as fit, first
// words highest; a word's id is stored plus one, so that 0 is "nothing here": n-grams end with `</s>` and with the
// text. Sorted, the packed n-grams have those of every shorter order as prefixes, so that one sort counts all orders.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "core/views.hpp"
#include "lm/lm.hpp"

namespace sapwood {
namespace {

// The most bits of a digit when keys are sorted: counters of that many digits stay in the first cache.
constexpr int DIGIT = 11;

// Write the ids of provisional `numbers` to `ids`, a boundary (-1) as `end` and `begin` around what is not empty;
// return how many were written. `is_open` tells whether the words before were in the same sentence.
Index renumber_words(Vector<const int32_t> numbers, Vector<const int32_t> ids_of, bool is_open, int32_t begin, int32_t end,
                     Vector<int32_t> ids) {
    Index written = 0;
    for (Index i = 0; i < numbers.size(); ++i) {
        const int32_t value = ids_of[numbers[i]];
        if (value >= 0) {
            if (!is_open && begin >= 0) ids[written++] = begin;
            is_open = true;
            ids[written++] = value;
        } else if (is_open) {
            ids[written++] = end;
            is_open = false;
        }
    }
    return written;
}

// Add to `sizes` (buckets) how many positions each bucket has, by the word there.
void bucket_sizes(Vector<const int32_t> ids, Vector<const int32_t> bucket_of, Vector<int64_t> sizes) {
    for (Index x = 0; x < ids.size(); ++x) ++sizes[bucket_of[ids[x]]];
}

// Pack the n-grams that begin at the first `n` of the `ids` and put each into its bucket, where `at` (buckets; moved
// on) says. `keys` is (columns, all). N-grams stop after the id `end`.
void divide_ngrams(Vector<const int32_t> ids, Index n, Index order, int bits, int32_t end, Vector<const int32_t> bucket_of,
                   Vector<int64_t> at, Matrix<uint64_t> keys) {
    const Index columns = keys.shape[0], fit = 64 / bits, size = ids.size();
    if (order == 2 && columns == 1) {  // the usual case, without the loops
        for (Index x = 0; x < n; ++x) {
            const int32_t value = ids[x];
            uint64_t key = static_cast<uint64_t>(value + 1) << bits;
            if (value != end && x + 1 < size) key |= static_cast<uint64_t>(ids[x + 1] + 1);
            keys(0, at[bucket_of[value]]++) = key;
        }
        return;
    }
    for (Index x = 0; x < n; ++x) {
        const Index target = at[bucket_of[ids[x]]]++;
        bool stopped = false;
        Index from = x;
        for (Index c = 0; c < columns; ++c) {
            uint64_t key = 0;
            for (Index words = std::min(fit, order - c * fit); words > 0; --words, ++from) {
                key <<= bits;
                if (stopped || from >= size) continue;
                key |= static_cast<uint64_t>(ids[from] + 1);
                stopped = ids[from] == end;
            }
            keys(c, target) = key;
        }
    }
}

// Sort all columns of `source` by one digit of column `column` into `target`, stably.
void sort_by_digit(Matrix<const uint64_t> source, Matrix<uint64_t> target, Index column, int low, int bits) {
    const Index n = source.shape[1], columns = source.shape[0];
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    const uint64_t *keys = source.row(column);
    std::vector<int64_t> next(std::size_t{1} << bits, 0);
    for (Index x = 0; x < n; ++x) ++next[(keys[x] >> low) & mask];
    int64_t total = 0;
    for (int64_t &each : next) total += std::exchange(each, total);
    if (columns == 1) {
        uint64_t *sorted = target.row(0);
        for (Index x = 0; x < n; ++x) sorted[next[(keys[x] >> low) & mask]++] = keys[x];
        return;
    }
    for (Index x = 0; x < n; ++x) {
        const Index y = next[(keys[x] >> low) & mask]++;
        for (Index c = 0; c < columns; ++c) target(c, y) = source(c, x);
    }
}

// Sort the columns' positions by the first `n_columns` columns; return whether the result is in `scratch`. Both are
// (columns, n). A radix sort, lowest digits first, of the bits in which keys differ at all.
bool sort_keys(Matrix<uint64_t> keys, Matrix<uint64_t> scratch, Index n_columns) {
    Matrix<uint64_t> here = keys, there = scratch;
    const Index n = keys.shape[1];
    for (Index column = n_columns - 1; column >= 0 && n > 1; --column) {
        const uint64_t *values = here.row(column);
        uint64_t differ = 0;
        for (Index x = 0; x < n; ++x) differ |= values[x] ^ values[0];
        if (!differ) continue;
        const int low = std::countr_zero(differ), width = 64 - std::countl_zero(differ) - low;
        const int passes = (width + DIGIT - 1) / DIGIT, digit = (width + passes - 1) / passes;
        for (int at = low; at < low + passes * digit; at += digit) {
            sort_by_digit(here, there, column, at, digit);
            std::swap(here, there);
        }
    }
    return here.data == scratch.data;
}

// Keep each of the sorted `keys` (columns, n) once, at the front, and write to `counts` (n) how often it was there;
// return how many are left. A column behind the first `n_columns`, if there is one, says how often each is to count.
Index count_equal_keys(Matrix<uint64_t> keys, Index n_columns, Vector<int64_t> counts) {
    const bool weighted = keys.shape[0] > n_columns;
    Index left = 0;
    for (Index x = 0; x < keys.shape[1]; ++x) {
        const int64_t weight = weighted ? static_cast<int64_t>(keys(n_columns, x)) : 1;
        bool same = left > 0;
        for (Index c = 0; c < n_columns && same; ++c) same = keys(c, x) == keys(c, left - 1);
        if (same) {
            counts[left - 1] += weight;
            continue;
        }
        for (Index c = 0; c < n_columns; ++c) keys(c, left) = keys(c, x);
        counts[left++] = weight;
    }
    return left;
}

// Write the n-grams of one order, (n, k), and their counts (n) from the sorted, distinct keys (columns, all) of n-grams
// of the longest `order`; return how many. If there is no room at all, `n = 0`, they are not written.
Index fill_ngrams(Matrix<const uint64_t> keys, Vector<const int64_t> counts, Index order, int bits, Matrix<int32_t> ngrams,
                  Vector<int64_t> totals) {
    const Index k = ngrams.shape[1], fit = 64 / bits, column = (k - 1) / fit;
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    const int shift = bits * static_cast<int>(std::min(fit, order - column * fit) - 1 - (k - 1) % fit);
    const bool writes = totals.size() > 0;
    // The words packed into `rest` become those before place `d` of a row, back to place `first`.
    const auto unpack = [&](int32_t *row, uint64_t rest, Index d, Index first) {
        for (; d > first; rest >>= bits) row[--d] = static_cast<int32_t>(rest & mask) - 1;
    };
    Index found = 0;
    uint64_t last = 0;
    for (Index x = 0; x < keys.shape[1]; ++x) {
        const uint64_t prefix = keys(column, x) >> shift;
        if (prefix & mask) {
            bool is_new = prefix != last;
            for (Index c = 0; c < column && !is_new; ++c) is_new = keys(c, x) != keys(c, x - 1);
            found += is_new;
            if (writes && is_new) {
                int32_t *row = ngrams.row(found - 1);
                totals[found - 1] = counts[x];
                unpack(row, prefix, k, column * fit);
                for (Index c = 0; c < column; ++c) unpack(row, keys(c, x), (c + 1) * fit, c * fit);
            } else if (writes) {
                totals[found - 1] += counts[x];
            }
        }
        last = prefix;
    }
    return found;
}

}  // namespace

void bind_counting(nb::module_ &module) {
    module.def("renumber_words", &renumber_words, "numbers"_a, "ids_of"_a, "is_open"_a, "begin"_a, "end"_a, "ids"_a,
               unlocked());
    module.def("bucket_sizes", &bucket_sizes, "ids"_a, "bucket_of"_a, "sizes"_a, unlocked());
    module.def("divide_ngrams", &divide_ngrams, "ids"_a, "n"_a, "order"_a, "bits"_a, "end"_a, "bucket_of"_a, "at"_a, "keys"_a,
               unlocked());
    module.def("sort_keys", &sort_keys, "keys"_a, "scratch"_a, "n_columns"_a, unlocked());
    module.def("count_equal_keys", &count_equal_keys, "keys"_a, "n_columns"_a, "counts"_a, unlocked());
    module.def("fill_ngrams", &fill_ngrams, "keys"_a, "counts"_a, "order"_a, "bits"_a, "ngrams"_a, "totals"_a, unlocked());
}

}  // namespace sapwood
