// Nonnegative CP decompositions: one factor is improved while the other two are held.
//
// The problem falls apart into one for each row of the factor, convex, over weights b >= 0 (R):
//
//     f(b) = sum over r of b(r)  -  sum over entries e of x(e) log m(e),      m(e) = sum over r of products(e, r) b(r)
//
// where the entries e are those of the row, and products(e, r) come from the other two factors, whose columns sum to one.
// The gradient is 1 - ratios, ratios(r) = sum over e of products(e, r) x(e) / m(e), and at the minimum b sums to the row's
// total. Products are formed once for each row and used in all its steps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/module.hpp"
#include "core/records.hpp"
#include "core/simd.hpp"

namespace sapwood {
namespace {

enum Steps : Index { check_only = 0, multiplicative = 1, quasi_newton = 2 };

// Shares of a row's total: weights below `zero` count as zero; zeros that should not be are raised by `first_raise`, then
// by less, down to `last_raise`; weights below `flush` become zero, so that products of factors never underflow.
constexpr double zero = 1e-10, first_raise = 1e-2, last_raise = 1e-9, flush = 1e-80;
// Quasi-Newton: differences that are remembered, weights that count as being at their bound, the decrease that is asked
// for, and how often a step is halved.
constexpr int memory = 3, halvings = 12;
constexpr double bound = 1e-8, decrease = 1e-4;
// Multiplicative steps never raise the objective; rounding can seem to, by this share of it and of the row's total.
constexpr double rounding = 1e-14;

// The tensor seen from one axis: the entries of a row are `offsets[row] .. offsets[row + 1] - 1`.
struct Entries {
    Vector<const int64_t> offsets;        // (n + 1)
    Vector<const int32_t> first, second;  // (entries): positions along the other two axes
    Vector<const double> values;          // (entries): above zero

    static constexpr auto fields() {
        return std::tuple{field("offsets", &Entries::offsets), field("first", &Entries::first),
                          field("second", &Entries::second), field("values", &Entries::values)};
    }
};

// One row of the factor, and the buffers that all rows share.
class Row {
  public:
    Row(Index most, Index rank)
        : rank_(rank), products_(most * rank), model_(most), ratios_(rank), before_(rank), direction_(rank), free_(rank),
          steps_(memory * rank), changes_(memory * rank) {}

    // Begin with the row whose entries are `begin .. end - 1`.
    void begin(const Entries &entries, Index begin, Index end, Matrix<const double> one, Matrix<const double> two,
               double *row) {
        values_ = entries.values.data + begin;
        size_ = end - begin;
        row_ = row;
        total_ = 0;
        for (Index e = 0; e < size_; ++e) {
            const double *a = one.row(entries.first[begin + e]), *b = two.row(entries.second[begin + e]);
            double *target = products_.data() + e * rank_;
            for (Index r = 0; r < rank_; ++r) target[r] = a[r] * b[r];
            total_ += values_[e];
        }
        objective_ = evaluate();
        set_ratios();
    }
    double objective() const { return objective_; }
    // Return how far the row is from a minimum: the largest |min(b / total, 1 - ratios)|.
    double violation() const {
        double result = 0;
        for (Index r = 0; r < rank_; ++r) result = std::max(result, std::abs(std::min(row_[r] / total_, 1.0 - ratios_[r])));
        return result;
    }
    void improve(Index method, Index inner, double tolerance) {
        raise_zeros();
        if (method == multiplicative) take_multiplicative(inner, tolerance);
        else take_quasi_newton(inner, tolerance);
        // The best multiple of the row is the one that sums to the total.
        double sum = 0;
        for (Index r = 0; r < rank_; ++r) sum += row_[r];
        for (Index r = 0; r < rank_; ++r) row_[r] *= total_ / sum;
        objective_ = evaluate();
    }

  private:
    // Set the model and return the objective, infinite where the model is zero.
    double evaluate() {
        double result = 0;
        for (Index r = 0; r < rank_; ++r) result += row_[r];
        for (Index e = 0; e < size_; ++e) {
            model_[e] = dot(products_.data() + e * rank_, row_, rank_);
            result -= values_[e] * std::log(model_[e]);
        }
        return result;
    }
    void set_ratios() {
        std::fill(ratios_.begin(), ratios_.end(), 0.0);
        for (Index e = 0; e < size_; ++e) axpy(ratios_.data(), values_[e] / model_[e], products_.data() + e * rank_, rank_);
    }
    void save() { std::copy_n(row_, rank_, before_.data()); }
    void restore() { std::copy_n(before_.data(), rank_, row_); }
    bool is_low(double weight, Index r) const { return ratios_[r] > 1 && weight < zero * total_; }
    double flushed(double weight) const { return weight > flush * total_ ? weight : 0.0; }
    bool rises(double now) const { return !(now <= objective_ + rounding * (std::abs(objective_) + total_)); }

    // Raise weights that are zero and should not be, as far as this lowers the objective: multiplicative steps leave them
    // at zero, and next to the bound a quasi-Newton step is badly scaled.
    void raise_zeros() {
        bool found = false;
        for (Index r = 0; r < rank_; ++r) found = found || is_low(row_[r], r);
        if (!found) return;
        save();
        for (double size = first_raise; size >= last_raise; size *= 0.1) {
            for (Index r = 0; r < rank_; ++r)
                if (is_low(before_[r], r)) row_[r] = before_[r] + size * total_;
            const double now = evaluate();
            if (now < objective_) {
                objective_ = now;
                set_ratios();
                return;
            }
        }
        restore();
        objective_ = evaluate();
    }
    void multiply() {
        for (Index r = 0; r < rank_; ++r) row_[r] = flushed(row_[r] * ratios_[r]);
    }
    void take_multiplicative(Index inner, double tolerance) {
        save();
        double now = objective_;
        for (Index step = 0; step < inner; ++step) {
            if (step && violation() <= tolerance) break;
            multiply();
            now = evaluate();
            if (std::isinf(now)) break;
            set_ratios();
        }
        if (rises(now)) {  // something has underflown
            restore();
            now = evaluate();
        }
        objective_ = now;
    }
    double free_dot(const double *a, const double *b) const {
        double total = 0;
        for (Index r = 0; r < rank_; ++r) total += free_[r] ? a[r] * b[r] : 0.0;
        return total;
    }
    // Set the direction of the next step, by L-BFGS among the weights that are not held at their bound. Where nothing is
    // remembered it is that of the multiplicative step, b ratios - b.
    void set_direction(int used, int newest) {
        double curvature[memory] = {}, share[memory] = {};
        for (Index r = 0; r < rank_; ++r) {
            free_[r] = row_[r] > bound * total_ || ratios_[r] > 1;
            direction_[r] = free_[r] ? ratios_[r] - 1 : 0.0;
        }
        const auto place = [newest](int back) { return (newest - back + memory) % memory; };
        for (int back = 0; back < used; ++back) {
            const int at = place(back);
            const double *step = steps_.data() + at * rank_, *change = changes_.data() + at * rank_;
            const double product = free_dot(step, change);
            if (!(product > 0)) continue;
            curvature[at] = 1 / product;
            share[at] = free_dot(step, direction_.data()) / product;
            axpy(direction_.data(), -share[at], change, rank_);
        }
        for (Index r = 0; r < rank_; ++r)
            direction_[r] *= std::max(row_[r], 1e-2 * total_ / (static_cast<double>(rank_) * std::max(1.0, ratios_[r])));
        for (int back = used - 1; back >= 0; --back) {
            const int at = place(back);
            if (!(curvature[at] > 0)) continue;
            const double factor = share[at] - curvature[at] * free_dot(changes_.data() + at * rank_, direction_.data());
            axpy(direction_.data(), factor, steps_.data() + at * rank_, rank_);
        }
        for (Index r = 0; r < rank_; ++r)
            if (!free_[r]) direction_[r] = -row_[r];
    }
    // Step along the direction, bent at the bounds, halving it until it lowers the objective enough. Return the new
    // objective; the old one if no step does, and then the row is unchanged.
    double search() {
        double size = 1;
        for (int halving = 0; halving < halvings; ++halving, size *= 0.5) {
            double slope = 0;
            for (Index r = 0; r < rank_; ++r) {
                row_[r] = flushed(before_[r] + size * direction_[r]);
                slope += (1 - ratios_[r]) * (row_[r] - before_[r]);
            }
            if (!(slope < 0)) continue;
            const double now = evaluate();
            if (now <= objective_ + decrease * slope) return now;
        }
        restore();
        return objective_;
    }
    void take_quasi_newton(Index inner, double tolerance) {
        int used = 0, newest = memory - 1;
        for (Index step = 0; step < inner; ++step) {
            if (step && violation() <= tolerance) return;
            save();
            set_direction(used, newest);
            double now = search();
            if (!(now < objective_)) {
                // What is remembered misleads, or there is less to be gained than rounding shows.
                used = 0;
                multiply();
                now = evaluate();
                if (rises(now)) {
                    restore();
                    objective_ = evaluate();
                    return;
                }
            }
            objective_ = now;
            newest = (newest + 1) % memory;
            double *taken = steps_.data() + newest * rank_, *change = changes_.data() + newest * rank_;
            for (Index r = 0; r < rank_; ++r) taken[r] = row_[r] - before_[r], change[r] = ratios_[r];
            set_ratios();
            for (Index r = 0; r < rank_; ++r) change[r] -= ratios_[r];
            used = std::min(used + 1, memory);
        }
    }

    Index rank_, size_ = 0;
    const double *values_ = nullptr;
    double *row_ = nullptr, total_ = 0, objective_ = 0;
    std::vector<double> products_, model_, ratios_, before_, direction_;
    std::vector<char> free_;
    std::vector<double> steps_, changes_;
};

// Lower the objectives of the rows `begin .. end - 1` of a factor, and fill `objectives` and `violations` (n): the latter
// are those before.
//
// `one` (n', R) and `two` (n'', R) are the factors of the other two axes, with columns that sum to one. Rows without
// entries are skipped, and should be zero. Each row whose violation is above `tolerance` takes up to `inner` steps of a
// kind; `check_only` changes nothing.
void update_factor(const Entries &entries, Matrix<const double> one, Matrix<const double> two, Matrix<double> rows, Index begin,
                   Index end, Index method, Index inner, double tolerance, Vector<double> objectives,
                   Vector<double> violations) {
    const Index n = rows.shape[0], rank = rows.shape[1];
    check_shape("offsets", entries.offsets, n + 1);
    check_shape("one", one, any_size, rank);
    check_shape("two", two, any_size, rank);
    check_shape("objectives", objectives, n);
    check_shape("violations", violations, n);
    check_range(begin, end, n);
    Index most = 0;
    for (Index i = begin; i < end; ++i) most = std::max<Index>(most, entries.offsets[i + 1] - entries.offsets[i]);
    Row row(most, rank);
    for (Index i = begin; i < end; ++i) {
        objectives[i] = violations[i] = 0;
        if (entries.offsets[i] == entries.offsets[i + 1]) continue;
        row.begin(entries, entries.offsets[i], entries.offsets[i + 1], one, two, rows.row(i));
        violations[i] = row.violation();
        if (method != check_only && violations[i] > tolerance) row.improve(method, inner, tolerance);
        objectives[i] = row.objective();
    }
}

// Return the values of a sum of products at `places` (entries, 3), given its factors (n, R).
Array<double> product_values(Matrix<const int32_t> places, Matrix<const double> parent, Matrix<const double> left,
                             Matrix<const double> right) {
    check_shape("left", left, any_size, parent.shape[1]);
    check_shape("right", right, any_size, parent.shape[1]);
    Array<double> result(places.shape[0]);
    for (Index e = 0; e < places.shape[0]; ++e) {
        const int32_t *place = places.row(e);
        const double *a = parent.row(place[0]), *b = left.row(place[1]), *c = right.row(place[2]);
        double total = 0;
#pragma omp simd reduction(+ : total)
        for (Index r = 0; r < parent.shape[1]; ++r) total += a[r] * b[r] * c[r];
        result[e] = total;
    }
    return result;
}

}  // namespace

void bind_cp_decomposition(nb::module_ &module) {
    module.def("update_factor", &update_factor, "entries"_a, "one"_a, "two"_a, "rows"_a, "begin"_a, "end"_a, "method"_a,
               "inner"_a, "tolerance"_a, "objectives"_a, "violations"_a, unlocked());
    module.def("product_values", &product_values, "places"_a, "parent"_a, "left"_a, "right"_a, unlocked());
}

}  // namespace sapwood
