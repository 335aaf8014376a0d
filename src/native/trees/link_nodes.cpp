// Binary trees in preorder: children, parents and spans.
#include <algorithm>
#include <vector>

#include "core/module.hpp"
#include "core/views.hpp"

namespace sapwood {
namespace {

// Fill in children, parents and spans; `offsets` (trees + 1) bounds each tree's nodes. Returns -1, or the number of the
// first tree whose nodes do not form one binary tree.
Index link_nodes(Vector<const bool> is_leaf, Vector<const int64_t> offsets, Vector<int32_t> left, Vector<int32_t> right,
                 Vector<int32_t> parent, Vector<int32_t> start, Vector<int32_t> end) {
    const Index n_trees = offsets.size() - 1;
    std::vector<Index> open;  // nodes whose children are not all there
    for (Index t = 0; t < n_trees; ++t) {
        const Index begin = offsets[t], stop = offsets[t + 1];
        int32_t position = 0;
        open.clear();
        for (Index node = begin; node < stop; ++node) {
            parent[node] = -1;
            if (node > begin) {
                if (open.empty()) return t;
                const Index above = open.back();
                parent[node] = static_cast<int32_t>(above);
                (left[above] < 0 ? left : right)[above] = static_cast<int32_t>(node);
            }
            start[node] = position;
            left[node] = right[node] = -1;
            if (!is_leaf[node]) {
                open.push_back(node);
                continue;
            }
            end[node] = ++position;
            while (!open.empty() && right[open.back()] >= 0) {
                end[open.back()] = position;
                open.pop_back();
            }
        }
        if (!open.empty() || begin == stop) return t;
    }
    return -1;
}

}  // namespace

void bind_trees(nb::module_ &module) {
    module.def("link_nodes", &link_nodes, "is_leaf"_a, "offsets"_a, "left"_a, "right"_a, "parent"_a, "start"_a, "end"_a,
               unlocked());
}

}  // namespace sapwood
