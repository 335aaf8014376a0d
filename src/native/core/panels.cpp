#include "core/panels.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/module.hpp"

#if defined(__AVX2__) && defined(__FMA__) && defined(__GNUC__)
#define SAPWOOD_WIDE_VECTORS
#endif

namespace sapwood {
namespace {

constexpr int width = Panels::width;

using Tile = Panels::Tile;
using Multiply = void (*)(const Tile &);

constexpr int narrow_rows = 6;

// Up to six rows and one panel: the sums stay in registers of 32 bytes.
template <int rows> void multiply_narrow(const Tile &t) {
    float sums[rows][width] = {};
    for (Index k = 0; k < t.depth; ++k) {
        const float *weights = t.panel + k * width;
        for (int r = 0; r < rows; ++r) {
            const float value = t.x[r * t.row + k * t.column];
#pragma omp simd
            for (int c = 0; c < width; ++c) sums[r][c] += value * weights[c];
        }
    }
    for (int r = 0; r < rows; ++r) t.store(r, sums[r]);
}

template <int... r> constexpr std::array<Multiply, sizeof...(r)> narrow_tiles(std::integer_sequence<int, r...>) {
    return {multiply_narrow<r + 1>...};
}

#ifdef SAPWOOD_WIDE_VECTORS

typedef float Wide __attribute__((vector_size(64)));
constexpr int wide_rows = 8;

// Up to eight rows and two panels.
template <int rows, int panels> [[gnu::target("avx512f")]] void multiply_wide(const Tile &t) {
    Wide sums[rows][panels] = {};
    for (Index k = 0; k < t.depth; ++k) {
        Wide weights[panels];
        for (int p = 0; p < panels; ++p) std::memcpy(&weights[p], t.panel + (p * t.depth + k) * width, sizeof(Wide));
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) sums[r][p] += t.x[r * t.row + k * t.column] * weights[p];
    }
    for (int r = 0; r < rows; ++r)
        for (int p = 0; p < panels; ++p) t.store(r, reinterpret_cast<const float *>(&sums[r][p]), p);
}

template <int panels, int... r> constexpr std::array<Multiply, sizeof...(r)> wide_tiles(std::integer_sequence<int, r...>) {
    return {multiply_wide<r + 1, panels>...};
}

#endif

// Call one of the `tiles`, for one row or more, on all rows: as few calls as there can be, with almost as many rows each.
template <std::size_t most> void multiply_rows(const std::array<Multiply, most> &tiles, Tile tile, Index rows) {
    for (Index calls = (rows + most - 1) / most; calls > 0; --calls) {
        const Index count = (rows + calls - 1) / calls;
        tiles[count - 1](tile);
        tile.x += count * tile.row;
        tile.out += count * tile.columns;
        rows -= count;
    }
}

// A matrix as it is or the other way round.
struct Operand {
    const float *data;
    Index rows, columns, row, column;

    Operand(Matrix<const float> matrix, bool transposed)
        : data(matrix.data), rows(matrix.shape[transposed]), columns(matrix.shape[!transposed]),
          row(transposed ? 1 : matrix.shape[1]), column(transposed ? matrix.shape[1] : 1) {}
};

// Fill `out` with the product of A and B, each transposed or not, or add it to `out`.
void matrix_product(Matrix<const float> a, bool transpose_a, Matrix<const float> b, bool transpose_b, Matrix<float> out,
                    bool add, bool wide) {
    const Operand left(a, transpose_a), right(b, transpose_b);
    check_shape("b", b, transpose_b ? any_size : left.columns, transpose_b ? left.columns : any_size);
    check_shape("out", out, left.rows, right.columns);
    const Panels panels(right.data, right.rows, right.columns, right.row, right.column);
    panels.multiply({left.data, panels.begin(), nullptr, out.data, left.row, left.column, left.columns, right.columns, 0, add},
                    left.rows, wide);
}

}  // namespace

bool has_wide_vectors() {
#ifdef SAPWOOD_WIDE_VECTORS
    static const bool found = __builtin_cpu_supports("avx512f");
    return found;
#else
    return false;
#endif
}

Panels::Panels(const float *weights, Index depth, Index columns, Index row, Index column) : depth(depth), columns(columns) {
    data.reset(new (std::align_val_t{64}) float[depth * n_panels() * width]);
    float *target = data.get();
    for (Index first = 0; first < columns; first += width) {
        const Index size = std::min<Index>(width, columns - first);
        for (Index k = 0; k < depth; ++k, target += width) {
            const float *source = weights + k * row + first * column;
            for (Index c = 0; c < size; ++c) target[c] = source[c * column];
            std::fill(target + size, target + width, 0.0f);
        }
    }
}

void Panels::multiply(Tile tile, Index rows, [[maybe_unused]] bool wide) const {
    constexpr auto narrow = narrow_tiles(std::make_integer_sequence<int, narrow_rows>{});
#ifdef SAPWOOD_WIDE_VECTORS
    if (wide && has_wide_vectors()) {
        constexpr auto pairs = wide_tiles<2>(std::make_integer_sequence<int, wide_rows>{}),
                       single = wide_tiles<1>(std::make_integer_sequence<int, wide_rows>{});
        for (; tile.first < columns; tile.first += 2 * width, tile.panel += 2 * width * depth)
            multiply_rows(tile.first + width < columns ? pairs : single, tile, rows);
        return;
    }
#endif
    for (; tile.first < columns; tile.first += width, tile.panel += width * depth) multiply_rows(narrow, tile, rows);
}

void bind_panels(nb::module_ &module) {
    module.def("has_wide_vectors", &has_wide_vectors);
    module.def("matrix_product", &matrix_product, "a"_a, "transpose_a"_a, "b"_a, "transpose_b"_a, "out"_a, "add"_a, "wide"_a,
               unlocked());
}

}  // namespace sapwood
