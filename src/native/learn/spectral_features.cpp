// Nodes of trees in preorder, and the filling of sparse rows.
#include <algorithm>

#include "core/module.hpp"
#include "core/views.hpp"

namespace sapwood {
namespace {

// Fill in each node's height (0 on leaves) and the leaf of its head, children before parents; all arrays are (nodes) but
// `head_is_right` (rules).
void climb(Vector<const int32_t> rule, Vector<const int32_t> left, Vector<const int32_t> right,
           Vector<const bool> head_is_right, Vector<int32_t> height, Vector<int32_t> head) {
    for (Index node = rule.size() - 1; node >= 0; --node) {
        if (rule[node] < 0) {
            height[node] = 0;
            head[node] = static_cast<int32_t>(node);
        } else {
            height[node] = 1 + std::max(height[left[node]], height[right[node]]);
            head[node] = head[head_is_right[rule[node]] ? right[node] : left[node]];
        }
    }
}

// Fill in each node's depth (0 on roots), and of its ancestors that are not intermediate, -1 if there is none: the first
// (`phrase`), and the head of the first that has another head than the node (`outer`). All arrays are (nodes).
void descend(Vector<const int32_t> parent, Vector<const bool> intermediate, Vector<const int32_t> head, Vector<int32_t> depth,
             Vector<int32_t> phrase, Vector<int32_t> outer) {
    for (Index node = 0; node < parent.size(); ++node) {
        int32_t above = parent[node];
        depth[node] = above >= 0 ? depth[above] + 1 : 0;
        if (above >= 0 && intermediate[above]) above = phrase[above];
        phrase[node] = above;
        if (above < 0) outer[node] = -1;
        else outer[node] = head[above] == head[node] ? outer[above] : head[above];
    }
}

// Append entries to sparse rows: row `r` goes on at `next_entry[r]`, which moves.
void fill_rows(Vector<const int32_t> rows, Vector<const int32_t> columns, Vector<const double> weights,
               Vector<int64_t> next_entry, Vector<int32_t> indices, Vector<double> data) {
    for (Index x = 0; x < rows.size(); ++x) {
        const Index at = next_entry[rows[x]]++;
        indices[at] = columns[x];
        data[at] = weights[x];
    }
}

}  // namespace

void bind_spectral_features(nb::module_ &module) {
    module.def("climb", &climb, "rule"_a, "left"_a, "right"_a, "head_is_right"_a, "height"_a, "head"_a, unlocked());
    module.def("descend", &descend, "parent"_a, "intermediate"_a, "head"_a, "depth"_a, "phrase"_a, "outer"_a, unlocked());
    module.def("fill_rows", &fill_rows, "rows"_a, "columns"_a, "weights"_a, "next_entry"_a, "indices"_a, "data"_a, unlocked());
}

}  // namespace sapwood
