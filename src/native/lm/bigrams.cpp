// Latent bigram models.
//
// Parameters are word-major, (words, m): each bigram touches `m` contiguous numbers on either side. Bigrams come in
// tiles (`lm/latent/tiles.py`): within a tile, a *segment* is what it has of one row. Four bigrams of a segment are done at a
// time, so that the row's numbers are loaded once for four.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

#include "core/records.hpp"
#include "core/simd.hpp"
#include "core/views.hpp"
#include "lm/lm.hpp"

namespace sapwood {
namespace {

// Probabilities are taken to be at least this, so that counts can be divided by them.
constexpr float SMALLEST = 1e-28f;

// Bigrams in the order of tiles.
template <class Number, class Begin, class Count> struct Segments {
    Vector<Number> rows;     // of each segment
    Vector<Begin> begins;    // where each begins, and one more
    Vector<Number> columns;  // of each bigram
    Vector<Count> counts;

    static auto fields() {
        return std::tuple(field("rows", &Segments::rows), field("begins", &Segments::begins),
                          field("columns", &Segments::columns), field("counts", &Segments::counts));
    }

    // Raise ValueError if segments `first .. last - 1` are not there, or the arrays' shapes differ.
    [[gnu::noinline]] void check(Index first, Index last) const {
        check_range(first, last, rows.size());
        check_shape("begins", begins, rows.size() + 1);
        check_shape("counts", counts, columns.size());
    }
};
template <class T> using Tiles = Segments<const int32_t, const int64_t, const T>;
template <class T> using NewTiles = Segments<int32_t, int64_t, T>;

// A sparse matrix, rows one after the other; row `i` is at `indptr[i]` to `indptr[i + 1]`.
template <class I, class D> struct Sparse {
    Vector<const I> indptr;
    Vector<const I> indices;
    Vector<const D> data;

    static auto fields() {
        return std::tuple(field("indptr", &Sparse::indptr), field("indices", &Sparse::indices), field("data", &Sparse::data));
    }
};

template <class T> T at_least_smallest(T z) { return std::max(z, static_cast<T>(SMALLEST)); }

// Do four bigrams of one row: add what they count to the row's sums and the columns'; return `sum count log z`.
template <class T>
double expect_four(const T *own, T *own_sums, const int32_t *columns, const T *counts, Matrix<const T> s, Matrix<T> s_sums) {
    const Index m = s.shape[1];
    const T *const others[4] = {s.row(columns[0]), s.row(columns[1]), s.row(columns[2]), s.row(columns[3])};
    T z[4];
    dot_four(own, others, m, z);
    T w[4];
    double total = 0;
    for (int k = 0; k < 4; ++k) {
        z[k] = at_least_smallest(z[k]);
        w[k] = counts[k] / z[k];
        total += counts[k] * std::log(z[k]);
    }
#pragma omp simd
    for (Index h = 0; h < m; ++h)
        own_sums[h] += (w[0] * others[0][h] + w[1] * others[1][h]) + (w[2] * others[2][h] + w[3] * others[3][h]);
    // One after the other: the same column may be there twice.
    for (int k = 0; k < 4; ++k) axpy(s_sums.row(columns[k]), w[k], own, m);
    return total;
}

// Add up `count / z` times the other side's numbers, for segments `first` to `last`; return `sum count log z`.
//
// `z = r[row] . s[column]`. The expected count of a state with a row's word is `r[row] * r_sums[row]`, and with a
// column's word `s[column] * s_sums[column]`. `r` and its sums are (rows, m), `s` and its (columns, m).
template <class T>
double expect_tiles(Index first, Index last, const Tiles<T> &tiles, Matrix<const T> r, Matrix<const T> s, Matrix<T> r_sums,
                    Matrix<T> s_sums) {
    const auto [rows, begins, columns, counts] = tiles;
    const Index m = r.shape[1];
    tiles.check(first, last);
    check_shape("s", s, any_size, m);
    check_shape("r_sums", r_sums, r.shape[0], m);
    check_shape("s_sums", s_sums, s.shape[0], m);
    double total = 0;
    for (Index segment = first; segment < last; ++segment) {
        const T *own = r.row(rows[segment]);
        T *own_sums = r_sums.row(rows[segment]);
        Index at = begins[segment];
        const Index end = begins[segment + 1];
        for (; at + 4 <= end; at += 4) total += expect_four(own, own_sums, columns.data + at, counts.data + at, s, s_sums);
        for (; at < end; ++at) {
            const T *other = s.row(columns[at]);
            const T z = at_least_smallest(dot(own, other, m));
            total += counts[at] * std::log(z);
            axpy(own_sums, counts[at] / z, other, m);
            axpy(s_sums.row(columns[at]), counts[at] / z, own, m);
        }
    }
    return total;
}

// Do the rows' half of `expect_tiles`, for when the columns' numbers are not to change.
template <class T>
double expect_tile_rows(Index first, Index last, const Tiles<T> &tiles, Matrix<const T> r, Matrix<const T> s,
                        Matrix<T> r_sums) {
    const auto [rows, begins, columns, counts] = tiles;
    const Index m = r.shape[1];
    tiles.check(first, last);
    check_shape("s", s, any_size, m);
    check_shape("r_sums", r_sums, r.shape[0], m);
    double total = 0;
    for (Index segment = first; segment < last; ++segment) {
        const T *own = r.row(rows[segment]);
        T *own_sums = r_sums.row(rows[segment]);
        for (Index at = begins[segment]; at < begins[segment + 1]; ++at) {
            const T *other = s.row(columns[at]);
            const T z = at_least_smallest(dot(own, other, m));
            total += counts[at] * std::log(z);
            axpy(own_sums, counts[at] / z, other, m);
        }
    }
    return total;
}

// Add the segments' part of `counts @ dense` to the result, or of `counts.T @ dense` if it is transposed; both are
// (words, m).
template <class T>
void multiply_tiles(Index first, Index last, const Tiles<T> &tiles, bool transposed, Matrix<const T> dense, Matrix<T> result) {
    const auto [rows, begins, columns, counts] = tiles;
    tiles.check(first, last);
    check_shape("result", result, any_size, dense.shape[1]);
    for (Index segment = first; segment < last; ++segment)
        for (Index at = begins[segment]; at < begins[segment + 1]; ++at) {
            const Index from = transposed ? rows[segment] : columns[at], to = transposed ? columns[at] : rows[segment];
            axpy(result.row(to), counts[at], dense.row(from), dense.shape[1]);
        }
}

// Count the entries and segments (blocks) of each tile in a row group: rows `begin` to `end` of the inner order `rows`.
// `block_of` has the block of each column.
template <class I, class D>
void count_tiles(const Sparse<I, D> &matrix, Index begin, Index end, Vector<const int32_t> rows, Vector<const int32_t> block_of,
                 Vector<int64_t> entries, Vector<int64_t> segments) {
    std::vector<Index> seen(static_cast<std::size_t>(entries.size()), -1);  // the last row in each block
    for (Index place = begin; place < end; ++place)
        for (Index at = matrix.indptr[rows[place]]; at < matrix.indptr[rows[place] + 1]; ++at) {
            const Index block = block_of[matrix.indices[at]];
            ++entries[block];
            if (std::exchange(seen[block], place) != place) ++segments[block];
        }
}

// Put the entries of a row group in the order of tiles; the first arguments are those of `count_tiles`.
//
// `place_of` has the place of each column in the inner order; `next_entry` and `next_segment` (blocks) say where each
// tile begins, and afterwards where it ends.
template <class I, class D, class T>
void fill_tiles(const Sparse<I, D> &matrix, Index begin, Index end, Vector<const int32_t> rows, Vector<const int32_t> block_of,
                Vector<const int32_t> place_of, Vector<int64_t> next_entry, Vector<int64_t> next_segment,
                const NewTiles<T> &tiles) {
    std::vector<Index> seen(static_cast<std::size_t>(next_entry.size()), -1);
    for (Index place = begin; place < end; ++place)
        for (Index at = matrix.indptr[rows[place]]; at < matrix.indptr[rows[place] + 1]; ++at) {
            const Index column = matrix.indices[at], block = block_of[column], to = next_entry[block]++;
            if (std::exchange(seen[block], place) != place) {
                const Index segment = next_segment[block]++;
                tiles.rows[segment] = static_cast<int32_t>(place);
                tiles.begins[segment] = to;
            }
            tiles.columns[to] = place_of[column];
            tiles.counts[to] = static_cast<T>(matrix.data[at]);
        }
}

// Set `result` to `r[context] . s[target]` for each pair; `r` and `s` are (words, m).
template <class T>
void pair_products(Vector<const int32_t> contexts, Vector<const int32_t> targets, Matrix<const T> r, Matrix<const T> s,
                   Vector<double> result) {
    check_shape("targets", targets, contexts.size());
    check_shape("s", s, any_size, r.shape[1]);
    check_shape("result", result, contexts.size());
    for (Index pair = 0; pair < contexts.size(); ++pair)
        result[pair] = dot(r.row(contexts[pair]), s.row(targets[pair]), r.shape[1]);
}

// Return `sum log value` over rows `begin` to `end` of `values` (words, m), each row times its weight.
template <class T> double weighted_logs(Index begin, Index end, Matrix<const T> values, Vector<const double> weights) {
    const Index m = values.shape[1];
    check_range(begin, end, values.shape[0]);
    check_shape("weights", weights, values.shape[0]);
    double total = 0;
    for (Index row = begin; row < end; ++row) {
        if (!(weights[row] > 0)) continue;
        const T *own = values.row(row);
        double sum = 0, rest = 1;
        Index h = 0;
        for (; h + 8 <= m; h += 8) {  // the product of eight of the smallest is still a normal number
            double product[4];
            for (int k = 0; k < 4; ++k)
                product[k] = static_cast<double>(at_least_smallest(own[h + k])) * at_least_smallest(own[h + 4 + k]);
            sum += std::log((product[0] * product[1]) * (product[2] * product[3]));
        }
        for (; h < m; ++h) rest *= at_least_smallest(own[h]);
        total += weights[row] * (sum + std::log(rest));
    }
    return total;
}

// Set rows `begin` to `end` of `statistics` to `blend[0]` times themselves plus `blend[1] * r * r_sums`, and those of
// `r` to the statistics plus `pseudo`, normalised. All are (words, m).
//
// No probability is below `smallest`; rows without statistics stay. With a blend of 0 and 1 and `r_sums` for
// statistics, these become the expected counts.
template <class T>
void blend_rows(Index begin, Index end, Matrix<T> r, Matrix<const T> r_sums, Vector<const double> blend, Matrix<T> statistics,
                double pseudo, double smallest) {
    const Index m = r.shape[1];
    check_range(begin, end, r.shape[0]);
    check_shape("r_sums", r_sums, r.shape[0], m);
    check_shape("blend", blend, 2);
    check_shape("statistics", statistics, r.shape[0], m);
    const double old_part = blend[0], new_part = blend[1];
    for (Index row = begin; row < end; ++row) {
        T *own = r.row(row), *kept = statistics.row(row);
        const T *sums = r_sums.row(row);
        double total = 0;
#pragma omp simd reduction(+ : total)
        for (Index h = 0; h < m; ++h) {
            kept[h] = static_cast<T>(old_part * kept[h] + new_part * own[h] * sums[h]);
            total += kept[h];
        }
        if (!(total > 0)) continue;
        const double scale = 1 / (total + m * pseudo);
#pragma omp simd
        for (Index h = 0; h < m; ++h) own[h] = static_cast<T>(std::max((kept[h] + pseudo) * scale, smallest));
    }
}

// Do to `statistics` with `s` and `s_sums` what `blend_rows` does with its rows, and add them to `totals` (m).
template <class T>
void blend_columns(Index begin, Index end, Matrix<const T> s, Matrix<const T> s_sums, Vector<const double> blend,
                   Matrix<T> statistics, Vector<double> totals) {
    check_range(begin, end, s.shape[0]);
    check_shape("s_sums", s_sums, s.shape[0], s.shape[1]);
    check_shape("blend", blend, 2);
    check_shape("statistics", statistics, s.shape[0], s.shape[1]);
    check_shape("totals", totals, s.shape[1]);
    const double old_part = blend[0], new_part = blend[1];
    double *whole = totals.data;
    for (Index word = begin; word < end; ++word) {
        const T *own = s.row(word), *sums = s_sums.row(word);
        T *kept = statistics.row(word);
#pragma omp simd
        for (Index h = 0; h < s.shape[1]; ++h) {
            kept[h] = static_cast<T>(old_part * kept[h] + new_part * own[h] * sums[h]);
            whole[h] += kept[h];
        }
    }
}

// Set rows `begin` to `end` of `s` to `(expected + pseudo[word]) * scale`; `scale` is (m).
//
// Values below `smallest` become zero: they would soon be too small to compute with.
template <class T>
void maximise_columns(Index begin, Index end, Matrix<T> s, Matrix<const T> expected, Vector<const double> pseudo,
                      Vector<const double> scale, double smallest) {
    check_range(begin, end, s.shape[0]);
    check_shape("expected", expected, s.shape[0], s.shape[1]);
    check_shape("pseudo", pseudo, s.shape[0]);
    check_shape("scale", scale, s.shape[1]);
    const double *scales = scale.data;
    for (Index word = begin; word < end; ++word) {
        const T *sums = expected.row(word);
        T *own = s.row(word);
        const double more = pseudo[word];
#pragma omp simd
        for (Index h = 0; h < s.shape[1]; ++h) {
            const double value = (sums[h] + more) * scales[h];
            own[h] = static_cast<T>(value >= smallest ? value : 0.0);
        }
    }
}

// Counts of type D, indices of type I.
template <class I, class D> void bind_making(nb::module_ &module) {
    module.def("count_tiles", &count_tiles<I, D>, "matrix"_a, "begin"_a, "end"_a, "rows"_a, "block_of"_a, "entries"_a,
               "segments"_a, unlocked());
    module.def("fill_tiles", &fill_tiles<I, D, float>, "matrix"_a, "begin"_a, "end"_a, "rows"_a, "block_of"_a, "place_of"_a,
               "next_entry"_a, "next_segment"_a, "tiles"_a, unlocked());
    module.def("fill_tiles", &fill_tiles<I, D, double>, "matrix"_a, "begin"_a, "end"_a, "rows"_a, "block_of"_a, "place_of"_a,
               "next_entry"_a, "next_segment"_a, "tiles"_a, unlocked());
}

// Parameters of type T.
template <class T> void bind_passes(nb::module_ &module) {
    module.def("expect_tiles", &expect_tiles<T>, "first"_a, "last"_a, "tiles"_a, "r"_a, "s"_a, "r_sums"_a, "s_sums"_a,
               unlocked());
    module.def("expect_tile_rows", &expect_tile_rows<T>, "first"_a, "last"_a, "tiles"_a, "r"_a, "s"_a, "r_sums"_a, unlocked());
    module.def("multiply_tiles", &multiply_tiles<T>, "first"_a, "last"_a, "tiles"_a, "transposed"_a, "dense"_a, "result"_a,
               unlocked());
    module.def("pair_products", &pair_products<T>, "contexts"_a, "targets"_a, "r"_a, "s"_a, "result"_a, unlocked());
    module.def("weighted_logs", &weighted_logs<T>, "begin"_a, "end"_a, "values"_a, "weights"_a, unlocked());
    module.def("blend_rows", &blend_rows<T>, "begin"_a, "end"_a, "r"_a, "r_sums"_a, "blend"_a, "statistics"_a, "pseudo"_a,
               "smallest"_a, unlocked());
    module.def("blend_columns", &blend_columns<T>, "begin"_a, "end"_a, "s"_a, "s_sums"_a, "blend"_a, "statistics"_a, "totals"_a,
               unlocked());
    module.def("maximise_columns", &maximise_columns<T>, "begin"_a, "end"_a, "s"_a, "expected"_a, "pseudo"_a, "scale"_a,
               "smallest"_a, unlocked());
}

}  // namespace

void bind_bigrams(nb::module_ &module) {
    bind_making<int32_t, int64_t>(module);
    bind_making<int32_t, double>(module);
    bind_making<int64_t, int64_t>(module);
    bind_making<int64_t, double>(module);
    bind_passes<float>(module);
    bind_passes<double>(module);
}

}  // namespace sapwood
