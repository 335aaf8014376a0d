// Least squares over the simplex: `min x' G x / 2 - c' x` over x at least 0 with sum 1, for each row `c` of `products`.
//
// `gram` is G (m, m), symmetric and positive definite, `products` (n, m); the solutions go to `weights` (n, m).
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/module.hpp"
#include "core/views.hpp"

namespace sapwood {
namespace {

// Return the corner of the simplex with the least value.
Index best_corner(Matrix<const double> gram, const double *c) {
    Index best = 0;
    for (Index j = 1; j < gram.shape[0]; ++j)
        if (gram(j, j) / 2 - c[j] < gram(best, best) / 2 - c[best]) best = j;
    return best;
}

// Exact solutions: a set of positive elements is grown by the element with the steepest descent, the equations on it are
// solved, and elements that would become negative leave it again (Lawson and Hanson's method for non-negative least
// squares, with the constraint on the sum).
class ActiveSet {
  public:
    ActiveSet(Matrix<const double> gram, double tolerance)
        : gram(gram), tolerance(tolerance), m(gram.shape[0]), chosen(m), inside(m), factor(m * m), first(m), second(m),
          gradient(m) {}

    // Solve for `c` (m); the solution goes to `x` (m).
    void solve(const double *c, double *x) {
        std::fill_n(x, m, 0.0);
        std::fill(inside.begin(), inside.end(), false);
        size = factored = 0;
        enter(best_corner(gram, c));
        x[chosen[0]] = 1.0;
        for (Index step = 0; step < 10 * m + 10; ++step) {
            const Index entering = steepest(c, x);
            if (entering < 0) break;
            enter(entering);
            do {
                minimise(c);
                factored = size;
            } while (move(x));
            if (!inside[entering]) break;  // nothing but rounding was left to gain
        }
        double total = 0;
        for (Index j = 0; j < m; ++j) total += x[j];
        for (Index j = 0; j < m; ++j) x[j] /= total;
    }

  private:
    Matrix<const double> gram;
    double tolerance;
    Index m, size = 0, factored = 0;
    std::vector<Index> chosen;  // the elements of the set, the first `size`
    std::vector<char> inside;
    std::vector<double> factor;  // Cholesky's (m, m), rows of chosen elements, the first `factored`
    std::vector<double> first, second, gradient;

    void enter(Index element) {
        chosen[size++] = element;
        inside[element] = true;
    }

    // Return the element outside of the set whose gradient is the least, if it is below the level of those inside; else
    // -1.
    Index steepest(const double *c, const double *x) {
        for (Index j = 0; j < m; ++j) gradient[j] = -c[j];
        for (Index p = 0; p < size; ++p) {
            const double *row = gram.row(chosen[p]), weight = x[chosen[p]];
            for (Index j = 0; j < m; ++j) gradient[j] += row[j] * weight;
        }
        double least = -tolerance;
        for (Index p = 0; p < size; ++p) least += x[chosen[p]] * gradient[chosen[p]];
        Index found = -1;
        for (Index j = 0; j < m; ++j)
            if (!inside[j] && gradient[j] < least) {
                least = gradient[j];
                found = j;
            }
        return found;
    }

    // Go from `x` towards the minimum in `first` as far as no element becomes negative; returns whether some became zero
    // and left the set.
    bool move(double *x) {
        double step = 1;
        for (Index p = 0; p < size; ++p) {
            const double old = x[chosen[p]];
            if (first[p] <= 0 && old - first[p] > 0) step = std::min(step, old / (old - first[p]));
        }
        Index kept = 0;
        for (Index p = 0; p < size; ++p) {
            const Index j = chosen[p];
            x[j] += step * (first[p] - x[j]);
            if (first[p] <= 0 && x[j] <= 1e-14) {
                x[j] = 0;
                inside[j] = false;
                factored = std::min(factored, kept);
            } else {
                chosen[kept++] = j;
            }
        }
        const bool dropped = kept < size;
        size = kept;
        return dropped;
    }

    // Leave in `first` the minimum over sum one, any sign, on the chosen elements.
    void minimise(const double *c) {
        factorise();
        for (Index i = 0; i < size; ++i) {
            double a = c[chosen[i]], b = 1;
            const double *row = factor.data() + i * m;
            for (Index k = 0; k < i; ++k) {
                a -= row[k] * first[k];
                b -= row[k] * second[k];
            }
            first[i] = a / row[i];
            second[i] = b / row[i];
        }
        double total_first = 0, total_second = 0;
        for (Index i = size - 1; i >= 0; --i) {
            double a = first[i], b = second[i];
            for (Index k = i + 1; k < size; ++k) {
                a -= factor[k * m + i] * first[k];
                b -= factor[k * m + i] * second[k];
            }
            first[i] = a / factor[i * m + i];
            second[i] = b / factor[i * m + i];
            total_first += first[i];
            total_second += second[i];
        }
        const double multiplier = (total_first - 1) / total_second;
        for (Index i = 0; i < size; ++i) first[i] -= multiplier * second[i];
    }

    // Fill in the rows of Cholesky's factor that are not there yet.
    void factorise() {
        for (Index i = factored; i < size; ++i) {
            double *row = factor.data() + i * m;
            for (Index j = 0; j <= i; ++j) {
                const double *other = factor.data() + j * m;
                double value = gram(chosen[i], chosen[j]);
                for (Index k = 0; k < j; ++k) value -= row[k] * other[k];
                row[j] = i == j ? std::sqrt(std::max(value, 1e-300)) : value / other[j];
            }
        }
    }
};

void active_set(Matrix<const double> gram, Matrix<const double> products, double tolerance, Matrix<double> weights) {
    ActiveSet solver(gram, tolerance);
    for (Index row = 0; row < products.shape[0]; ++row) solver.solve(products.row(row), weights.row(row));
}

// Approach the same solutions by Frank and Wolfe's steps towards a vertex, each as long as is best.
void frank_wolfe(Matrix<const double> gram, Matrix<const double> products, double tolerance, Index iterations,
                 Matrix<double> weights) {
    const Index m = products.shape[1];
    std::vector<double> image(m);
    for (Index row = 0; row < products.shape[0]; ++row) {
        const double *c = products.row(row);
        double *x = weights.row(row);
        const Index best = best_corner(gram, c);
        std::fill_n(x, m, 0.0);
        x[best] = 1;
        std::copy_n(gram.row(best), m, image.begin());
        for (Index iteration = 0; iteration < iterations; ++iteration) {
            Index vertex = 0;
            double level = 0, square = 0;
            for (Index j = 0; j < m; ++j) {
                if (image[j] - c[j] < image[vertex] - c[vertex]) vertex = j;
                level += x[j] * (image[j] - c[j]);
                square += x[j] * image[j];
            }
            const double gap = level - (image[vertex] - c[vertex]);
            if (gap <= tolerance) break;
            const double curvature = square - 2 * image[vertex] + gram(vertex, vertex);
            const double step = curvature <= gap ? 1 : gap / curvature;
            const double *corner = gram.row(vertex);
            for (Index j = 0; j < m; ++j) {
                x[j] *= 1 - step;
                image[j] += step * (corner[j] - image[j]);
            }
            x[vertex] += step;
        }
    }
}

}  // namespace

void bind_simplex(nb::module_ &module) {
    module.def("active_set", &active_set, "gram"_a, "products"_a, "tolerance"_a, "weights"_a, unlocked());
    module.def("frank_wolfe", &frank_wolfe, "gram"_a, "products"_a, "tolerance"_a, "iterations"_a, "weights"_a, unlocked());
}

}  // namespace sapwood
