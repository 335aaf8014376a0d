// NumPy arrays as the kernels see them: a pointer and a shape, without Python.
//
// A kernel takes `View<T, N>` for an array with N axes that it may write to, and `View<const T, N>` for one that it only
// reads. Arrays must have that type, that number of axes and be contiguous; nothing is converted. With SAPWOOD_CHECKED
// every index is checked.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "core/index.hpp"

namespace sapwood {

namespace nb = nanobind;
using nb::literals::operator""_a;

// Where a triangular chart has the span (i, j).
inline Index cell_of(Index i, Index j) { return j * (j - 1) / 2 + i; }

// What a cell may hold, where it is not the number of a row of symbols that are allowed there.
enum CellRule : std::int32_t { free_cell = -1, forbidden_cell = -2 };

using std::int32_t;
using std::int64_t;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;

inline void check_index([[maybe_unused]] Index i, [[maybe_unused]] Index bound) {
#ifdef SAPWOOD_CHECKED
    if (i < 0 || i >= bound) throw nb::index_error(("index " + std::to_string(i) + " of " + std::to_string(bound)).c_str());
#endif
}

template <class T, int N> struct View {
    T *data = nullptr;
    Index shape[N] = {};

    Index size() const {
        Index total = 1;
        for (int k = 0; k < N; ++k) total *= shape[k];
        return total;
    }
    // The number of elements below one index of the first axis.
    Index stride() const {
        Index total = 1;
        for (int k = 1; k < N; ++k) total *= shape[k];
        return total;
    }
    // Where row `i` of the first axis begins. `i` may be the number of rows: one behind the last.
    T *row(Index i) const {
        check_index(i, shape[0] + 1);
        return data + i * stride();
    }
    T &operator[](Index i) const
        requires(N == 1)
    {
        check_index(i, shape[0]);
        return data[i];
    }
    T &operator()(Index i, Index j) const
        requires(N == 2)
    {
        check_index(i, shape[0]);
        check_index(j, shape[1]);
        return data[i * shape[1] + j];
    }
    T &operator()(Index i, Index j, Index k) const
        requires(N == 3)
    {
        check_index(i, shape[0]);
        check_index(j, shape[1]);
        check_index(k, shape[2]);
        return data[(i * shape[1] + j) * shape[2] + k];
    }
    // The elements from `first` up to `last`, which must lie within.
    View<T, 1> slice(Index first, Index last) const
        requires(N == 1)
    {
        check_index(first, shape[0] + 1);
        check_index(last, shape[0] + 1);
        return {data + first, {last - first}};
    }
    operator View<const T, N>() const
        requires(!std::is_const_v<T>)
    {
        View<const T, N> view{data, {}};
        for (int k = 0; k < N; ++k) view.shape[k] = shape[k];
        return view;
    }
};

template <class T> using Vector = View<T, 1>;
template <class T> using Matrix = View<T, 2>;
template <class T> using Cube = View<T, 3>;

namespace detail {

[[noreturn]] inline void refuse_shape(const char *name, const Index *shape, const Index *expected, int axes) {
    const auto text = [axes](const Index *sizes) {
        std::string result = "(";
        for (int k = 0; k < axes; ++k) result += (k ? ", " : "") + (sizes[k] < 0 ? "any" : std::to_string(sizes[k]));
        return result + (axes == 1 ? ",)" : ")");
    };
    throw nb::value_error((std::string(name) + " has the shape " + text(shape) + ", expected " + text(expected)).c_str());
}

}  // namespace detail

// Checks are never inlined: the compiler would then fuse and order the sums of the loops behind them differently.
// The size of an axis that `check_shape` does not look at.
constexpr Index any_size = -1;

// Raise ValueError if an array does not have the shape that follows from the other arguments.
template <class T, int N, class... Sizes>
[[gnu::noinline]] void check_shape(const char *name, const View<T, N> &array, Sizes... sizes) {
    static_assert(sizeof...(Sizes) == N);
    const Index expected[] = {static_cast<Index>(sizes)...};
    for (int k = 0; k < N; ++k)
        if (array.shape[k] != expected[k] && expected[k] != any_size) detail::refuse_shape(name, array.shape, expected, N);
}

// Raise ValueError if `first .. last - 1` are not all numbers of rows, where there are `size`.
[[gnu::noinline]] inline void check_range(Index first, Index last, Index size) {
    if (first < 0 || last > size)
        throw nb::value_error(
            ("rows " + std::to_string(first) + " to " + std::to_string(last) + " of " + std::to_string(size)).c_str());
}

// A new array, handed to Python without a copy. Its elements are not set.
template <class T, int N = 1> struct Array {
    std::unique_ptr<T[]> data;
    Index shape[N];

    template <class... Sizes> explicit Array(Sizes... sizes) : shape{static_cast<Index>(sizes)...} {
        static_assert(sizeof...(Sizes) == N);
        data.reset(new T[view().size()]);
    }
    View<T, N> view() const {
        View<T, N> result{data.get(), {}};
        for (int k = 0; k < N; ++k) result.shape[k] = shape[k];
        return result;
    }
    T &operator[](Index i) const { return view()[i]; }
};

// A copy of what a container holds, for Python.
template <class Container> auto to_array(const Container &values) {
    Array<std::remove_cvref_t<decltype(values[0])>> result(static_cast<Index>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) result.data[i] = values[i];
    return result;
}

// Every kernel runs without the interpreter's lock.
using unlocked = nb::call_guard<nb::gil_scoped_release>;

namespace detail {

// Whether a buffer's format is that of T.
template <class T> bool has_format(const char *format) {
    if (!format || !format[0] || format[1]) return false;
    const char c = format[0];
    if constexpr (std::is_same_v<T, bool>) return c == '?';
    else if constexpr (std::is_same_v<T, float>) return c == 'f';
    else if constexpr (std::is_same_v<T, double>) return c == 'd';
    else {
        const char *kinds = std::is_signed_v<T> ? "bhilq" : "BHILQ";
        const std::size_t sizes[] = {1, sizeof(short), sizeof(int), sizeof(long), sizeof(long long)};
        for (int k = 0; k < 5; ++k)
            if (c == kinds[k]) return sizes[k] == sizeof(T);
        return false;
    }
}

}  // namespace detail
}  // namespace sapwood

namespace nanobind::detail {

template <class T, int N> struct type_caster<sapwood::View<T, N>> {
    using View = sapwood::View<T, N>;
    NB_TYPE_CASTER(View, const_name("ndarray[") + dtype_name<std::remove_const_t<T>>::name + const_name(", ndim=") +
                             const_name<N>() + const_name("]"))

    bool from_python(handle source, uint32_t, cleanup_list *) noexcept {
        Py_buffer buffer;
        const int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (std::is_const_v<T> ? 0 : PyBUF_WRITABLE);
        if (PyObject_GetBuffer(source.ptr(), &buffer, flags) != 0) {
            PyErr_Clear();
            return false;
        }
        const bool fits = buffer.ndim == N && sapwood::detail::has_format<std::remove_const_t<T>>(buffer.format);
        if (fits) {
            value.data = static_cast<T *>(buffer.buf);
            for (int k = 0; k < N; ++k) value.shape[k] = buffer.shape[k];
        }
        // The caller holds the array until the kernel returns.
        PyBuffer_Release(&buffer);
        return fits;
    }
};

template <class T, int N> struct type_caster<sapwood::Array<T, N>> {
    using Value = sapwood::Array<T, N>;
    static constexpr auto Name = const_name("ndarray[") + dtype_name<T>::name + const_name("]");

    static handle from_cpp(Value &&array, rv_policy, cleanup_list *) noexcept {
        try {
            T *data = array.data.release();
            capsule owner(data, [](void *pointer) noexcept { delete[] static_cast<T *>(pointer); });
            std::size_t shape[N];
            for (int k = 0; k < N; ++k) shape[k] = static_cast<std::size_t>(array.shape[k]);
            ndarray<numpy, T, ndim<N>, c_contig> result(data, N, shape, owner);
            object made = result.cast();
            // NumPy has two kinds of 64-bit integers that differ in name only; take the usual one.
            if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
                made = made.attr("view")(std::is_signed_v<T> ? "int64" : "uint64");
            return made.release();
        } catch (python_error &error) {  // no memory
            error.restore();
            return handle();
        }
    }
};

}  // namespace nanobind::detail
