// Copies between the arrays of Python and containers of C++.
#pragma once

#include <algorithm>
#include <vector>

#include "core/views.hpp"

namespace sapwood {

// The elements of an array, one row behind the other.
template <class T, int N> std::vector<std::remove_const_t<T>> flat(View<T, N> values) {
    return std::vector<std::remove_const_t<T>>(values.data, values.data + values.size());
}

// The same, in single precision.
template <class T, int N> std::vector<float> flat_single(View<T, N> values) {
    return std::vector<float>(values.data, values.data + values.size());
}

// A new array with the first `size` of some values.
template <class T> Array<T> array_of(const T *values, Index size) {
    Array<T> result(size);
    std::copy(values, values + size, result.data.get());
    return result;
}

}  // namespace sapwood
