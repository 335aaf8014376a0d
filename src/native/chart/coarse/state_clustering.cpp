// Groups of alike states, for a version of a grammar with fewer of them.
#include "chart/coarse/state_clustering.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace sapwood {
namespace {

constexpr int most_rounds = 20;

// What is known of a symbol's m states: columns of m numbers, one for each way to use the symbol, and their frequencies.
struct States {
    Index m;
    std::vector<float> columns;
    const double *occupancy;

    Index n_columns() const { return static_cast<Index>(columns.size()) / m; }
};

// k-means of the states' columns, weighted by how frequent states are; the first centre is the most frequent state, each
// other one the state that adds most to the distance. Ties go to the lower number.
class Clustering {
  public:
    Clustering(const States &states, Index k) : s(states), width(states.n_columns()), rows(states.m * width) {
        for (Index x = 0; x < s.m; ++x)
            for (Index y = 0; y < width; ++y) rows[x * width + y] = s.columns[y * s.m + x];
        choose_centres(k);
        label.assign(s.m, -1);
        for (int round = 0; round < most_rounds && assign(); ++round) move_centres();
    }

    // Groups numbered in the order in which they first occur.
    void write(int64_t *groups) const {
        std::vector<int64_t> number(centres.size() / std::max<Index>(width, 1) + 1, -1);
        int64_t next = 0;
        for (Index x = 0; x < s.m; ++x) {
            if (number[label[x]] < 0) number[label[x]] = next++;
            groups[x] = number[label[x]];
        }
    }

  private:
    const States &s;
    const Index width;
    std::vector<float> rows, centres;
    std::vector<Index> label;

    double weight(Index x) const { return std::max(s.occupancy[x], 1e-9); }
    double distance(Index x, const float *centre) const {
        double total = 0;
        for (Index y = 0; y < width; ++y) {
            const double apart = rows[x * width + y] - centre[y];
            total += apart * apart;
        }
        return total;
    }

    void choose_centres(Index k) {
        std::vector<double> nearest(s.m);
        Index chosen = 0;
        for (Index x = 1; x < s.m; ++x)
            if (weight(x) > weight(chosen)) chosen = x;
        for (Index c = 0; c < k; ++c) {
            centres.insert(centres.end(), rows.begin() + chosen * width, rows.begin() + (chosen + 1) * width);
            double most = -1;
            for (Index x = 0; x < s.m; ++x) {
                const double apart = distance(x, centres.data() + c * width);
                nearest[x] = c == 0 ? apart : std::min(nearest[x], apart);
                if (nearest[x] * weight(x) > most) most = nearest[x] * weight(x), chosen = x;
            }
        }
    }

    // Give each state the nearest centre; returns whether any changed.
    bool assign() {
        bool changed = false;
        const Index k = width ? static_cast<Index>(centres.size()) / width : 1;
        for (Index x = 0; x < s.m; ++x) {
            Index best = 0;
            double least = distance(x, centres.data());
            for (Index c = 1; c < k; ++c) {
                const double apart = distance(x, centres.data() + c * width);
                if (apart < least) least = apart, best = c;
            }
            changed |= label[x] != best;
            label[x] = best;
        }
        return changed;
    }

    void move_centres() {
        const Index k = width ? static_cast<Index>(centres.size()) / width : 0;
        std::vector<double> sums(width);
        for (Index c = 0; c < k; ++c) {
            double total = 0;
            std::fill(sums.begin(), sums.end(), 0.0);
            for (Index x = 0; x < s.m; ++x) {
                if (label[x] != c) continue;
                total += weight(x);
                for (Index y = 0; y < width; ++y) sums[y] += weight(x) * rows[x * width + y];
            }
            if (total == 0) continue;
            for (Index y = 0; y < width; ++y) centres[c * width + y] = static_cast<float>(sums[y] / total);
        }
    }
};

// Add how often each state of a rule's symbols uses it: as parent, left and right child.
template <class Real>
void add_uses(const Real *tensor, States &parent, States &left, States &right) {
    std::vector<double> by_parent(parent.m), by_left(left.m), by_right(right.m);
    for (Index a = 0; a < parent.m; ++a) {
        const double above = std::max(parent.occupancy[a], 1e-300);
        for (Index b = 0; b < left.m; ++b)
            for (Index c = 0; c < right.m; ++c) {
                const double weight = std::max<double>(*tensor++, 0);
                by_parent[a] += weight;
                by_left[b] += above * weight;
                by_right[c] += above * weight;
            }
    }
    for (const double uses : by_parent) parent.columns.push_back(static_cast<float>(std::sqrt(uses)));
    const auto add_child = [](States &child, const std::vector<double> &uses) {
        for (Index x = 0; x < child.m; ++x)
            child.columns.push_back(static_cast<float>(std::sqrt(uses[x] / std::max(child.occupancy[x], 1e-300))));
    };
    add_child(left, by_left);
    add_child(right, by_right);
}

}  // namespace

template <class Real>
Array<int64_t> cluster_states(Matrix<const int32_t> rules, Vector<const int64_t> state_offsets,
                              Vector<const int64_t> tensor_offsets, Vector<const Real> tensors, Vector<const double> occupancy,
                              Index k) {
    const Index n_symbols = state_offsets.size() - 1;
    std::vector<States> symbols;
    for (Index s = 0; s < n_symbols; ++s)
        symbols.push_back({state_offsets[s + 1] - state_offsets[s], {}, occupancy.data + state_offsets[s]});
    for (Index r = 0; r < rules.shape[0]; ++r)
        add_uses(tensors.data + tensor_offsets[r], symbols[rules(r, 0)], symbols[rules(r, 1)], symbols[rules(r, 2)]);
    Array<int64_t> groups(state_offsets[n_symbols]);
    for (Index s = 0; s < n_symbols; ++s) {
        int64_t *own = groups.data.get() + state_offsets[s];
        if (symbols[s].m > k) Clustering(symbols[s], k).write(own);
        else
            for (Index x = 0; x < symbols[s].m; ++x) own[x] = x;
        symbols[s].columns = {};
    }
    return groups;
}

template Array<int64_t> cluster_states(Matrix<const int32_t>, Vector<const int64_t>, Vector<const int64_t>, Vector<const float>,
                                       Vector<const double>, Index);
template Array<int64_t> cluster_states(Matrix<const int32_t>, Vector<const int64_t>, Vector<const int64_t>,
                                       Vector<const double>, Vector<const double>, Index);

}  // namespace sapwood
