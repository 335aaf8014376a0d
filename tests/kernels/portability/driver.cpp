// A program without Python that runs the vectorised loops of core/simd.hpp on fixed inputs and prints a digest of the bytes
// of each result, so that compilers and processors can be compared (`.ci/portability`).
#include <cstdio>
#include <vector>

#include "core/simd.hpp"

namespace {

using sapwood::Index;

// Numbers between -1 and 1 with all their bits, the same everywhere.
struct Numbers {
    std::uint64_t state = 0x9E3779B97F4A7C15U;

    template <class T> std::vector<T> operator()(Index size) {
        std::vector<T> result(static_cast<std::size_t>(size));
        for (T &x : result) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            x = static_cast<T>(static_cast<double>(state >> 11) / (1LL << 52) - 1);
        }
        return result;
    }
};

template <class T> void print(const char *name, const std::vector<T> &values) {
    std::uint64_t digest = 0xCBF29CE484222325U;  // FNV-1a
    for (const T &x : values) {
        unsigned char bytes[sizeof x];
        std::memcpy(bytes, &x, sizeof x);
        for (const unsigned char byte : bytes) digest = (digest ^ byte) * 0x100000001B3U;
    }
    std::printf("%s %zu %016llx\n", name, sizeof(T), static_cast<unsigned long long>(digest));
}

template <class T> void run() {
    Numbers numbers;
    std::vector<T> sums;
    for (const Index n : {1, 7, 8, 16, 33, 64, 129, 1000}) {
        const auto x = numbers.operator()<T>(n), y = numbers.operator()<T>(4 * n);
        sums.push_back(sapwood::dot(x.data(), y.data(), n));
        T four[4];
        sapwood::dot_four(x.data(), y.data(), n, four);
        sums.insert(sums.end(), four, four + 4);
    }
    print("dot", sums);

    const Index n = 61, m = 13, k = 29;
    auto target = numbers.operator()<T>(n);
    const auto x = numbers.operator()<T>(4 * n), factors = numbers.operator()<T>(4);
    sapwood::axpy(target.data(), factors[0], x.data(), n);
    sapwood::axpy_four(target.data(), factors.data(), x.data(), n);
    print("axpy", target);

    std::vector<T> product(static_cast<std::size_t>(n * m));
    sapwood::outer(x.data(), n, factors.data(), 4, product.data());
    print("outer", product);

    const auto a = numbers.operator()<T>(m * k), b = numbers.operator()<T>(k * n);
    auto c = numbers.operator()<T>(m * n);
    sapwood::gemm(a.data(), k, 1, b.data(), c.data(), m, k, n);
    print("gemm", c);

    std::vector<std::uint32_t> masks;
    for (const T limit : {T(-0.5), T(0), T(0.25)}) masks.push_back(sapwood::mask_above(a.data(), b.data(), limit));
    for (const std::uint32_t mask : std::vector(masks))
        if (mask) masks.push_back(static_cast<std::uint32_t>(sapwood::lowest_bit(mask)));
    print("mask_above", masks);

    const std::vector<std::int32_t> splits = {3, 0, 7, 2, 2, 11};
    std::vector<T> total(sapwood::lanes);
    sapwood::sum_lanes(total.data(), splits.data(), a.data(), static_cast<Index>(splits.size()), b.data(),
                       Index(sapwood::lanes));
    print("sum_lanes", total);
}

}  // namespace

int main() {
    run<float>();
    run<double>();
}
