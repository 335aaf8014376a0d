// A tree whose nodes are linked, so that they can be visited from any node, moved, added and removed.
#pragma once

#include <vector>

#include "core/views.hpp"

namespace sapwood {

constexpr int32_t no_node = -1;

// Words are nodes without children, below their tags. All vectors have one element per node.
struct LinkedTree {
    std::vector<int32_t> symbols, parents, first, last, next, previous;
    std::vector<uint8_t> attached;
    int32_t root = 0;

    int32_t size() const { return static_cast<int32_t>(symbols.size()); }

    int32_t add(int32_t symbol) {
        symbols.push_back(symbol);
        for (auto *links : {&parents, &first, &last, &next, &previous}) links->push_back(no_node);
        attached.push_back(1);
        return size() - 1;
    }

    // Take over the nodes `begin .. end - 1` of a table, which are a tree in preorder; `above` are their parents.
    void load(const int32_t *symbols_of, const int32_t *above, Index begin, Index end) {
        for (auto *links : {&symbols, &parents, &first, &last, &next, &previous}) links->clear();
        attached.clear();
        root = 0;
        for (Index node = begin; node < end; ++node) {
            const int32_t made = add(symbols_of[node]);
            if (node > begin) append(made, static_cast<int32_t>(above[node] - begin));
        }
    }

    void append(int32_t node, int32_t parent) { insert(node, parent, no_node); }

    // Insert a node without a parent before a child, or at the end.
    void insert(int32_t node, int32_t parent, int32_t before) {
        parents[at(node)] = parent;
        const int32_t after = before == no_node ? last[at(parent)] : previous[at(before)];
        next[at(node)] = before;
        previous[at(node)] = after;
        (after == no_node ? first[at(parent)] : next[at(after)]) = node;
        (before == no_node ? last[at(parent)] : previous[at(before)]) = node;
    }

    void unlink(int32_t node) {
        const int32_t above = parents[at(node)], before = previous[at(node)], after = next[at(node)];
        (before == no_node ? first[at(above)] : next[at(before)]) = after;
        (after == no_node ? last[at(above)] : previous[at(after)]) = before;
        parents[at(node)] = next[at(node)] = previous[at(node)] = no_node;
    }

    // Put a node without a parent where another one is, which then has none.
    void substitute(int32_t node, int32_t by) {
        if (node == root) {
            root = by;
            return;
        }
        const int32_t above = parents[at(node)], before = next[at(node)];
        unlink(node);
        insert(by, above, before);
    }

    // The node after this one in preorder, within the subtree of `top`; `no_node` at its end.
    int32_t following(int32_t node, int32_t top) const {
        return first[at(node)] != no_node ? first[at(node)] : following_subtree(node, top);
    }

    // The first node in preorder that is neither this one nor below it.
    int32_t following_subtree(int32_t node, int32_t top) const {
        while (node != top) {
            if (next[at(node)] != no_node) return next[at(node)];
            node = parents[at(node)];
        }
        return no_node;
    }

    bool is_first(int32_t node) const { return previous[at(node)] == no_node; }
    bool is_last(int32_t node) const { return next[at(node)] == no_node; }

    static std::size_t at(int32_t node) { return static_cast<std::size_t>(node); }
};

}  // namespace sapwood
