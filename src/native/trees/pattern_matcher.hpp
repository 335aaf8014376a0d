// Tree patterns, matched at one node after another.
//
// A pattern is a table of parts (`sapwood.trees.search.program` lays it out): tests of nodes, and relations joined by "and",
// "or" and "not". Parts that refer to no name have one truth value at each node, which is kept until the tree changes. The
// others are solved by backtracking over a stack of goals; negations that refer to names wait until everything else holds, so
// that all names are bound. Recursion is as deep as the pattern.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trees/linked_tree.hpp"

namespace sapwood {

// What a row of a pattern's table is. The columns behind the kind:
enum PartKind : int32_t {
    node_part,       // test, clause, name, range of `lists` with (group, variable) pairs
    reference_part,  // test of the named node, clause, name, whether only its label is meant
    related_part,    // relation, its number, node, path
    not_part,        // clause
    and_part,        // range of `lists` with clauses
    or_part,         // the same
    optional_part,   // clause
};
constexpr int part_columns = 8;  // the kind, five columns, whether the part is pure, whether it binds names

enum Relation : int32_t {
    parent_of,
    child_of,
    dominates,
    dominated_by,
    dominates_by,
    dominated_through,
    same_node,
    same_or_parent_of,
    anywhere,
    just_before,
    just_after,
    before,
    after,
    sister,
    next_sister,
    previous_sister,
    later_sister,
    earlier_sister,
    path_down,
    path_up,
    path_before,
    path_after,
};
// Numbers of relations to children: the n-th, the -n-th from the end, or one of these.
enum ChildKind : int32_t { any_child = 0, only_child = 1 << 30, head_child = (1 << 30) + 1 };

// The spellings of a treebank and what Python says about them, asked once for each.
class Spellings {
  public:
    // There are `size` of them, labels, then words. The oracle knows them all (`texts()`), whether a test accepts one
    // (`accepts(test, text, is word)`), the groups of its regular expression (`groups(test, text)`), and the index of the head
    // among children (`head([label, *labels of children])`). Texts are bytes.
    Spellings(Index size, Index n_labels, nb::object oracle) : oracle_(std::move(oracle)), n_labels_(n_labels), size_(size) {}

    int32_t size() const { return static_cast<int32_t>(size_ + static_cast<Index>(made_.size())); }
    Index original() const { return size_; }

    bool is_word(int32_t symbol) const {
        return symbol < size_ ? symbol >= n_labels_ : made_[static_cast<std::size_t>(symbol - size_)].second;
    }

    const std::string &text(int32_t symbol) {
        if (symbol >= size_) return made_[static_cast<std::size_t>(symbol - size_)].first;
        fetch();
        return texts_[static_cast<std::size_t>(symbol)];
    }

    // The number of a label or word, new if need be.
    int32_t intern(const std::string &text, bool word) {
        fetch();
        if (numbers_[0].empty() && numbers_[1].empty())
            for (Index symbol = 0; symbol < size_; ++symbol)
                numbers_[symbol >= n_labels_].try_emplace(texts_[static_cast<std::size_t>(symbol)],
                                                          static_cast<int32_t>(symbol));
        const auto [found, is_new] = numbers_[word].try_emplace(text, size());
        if (is_new) made_.emplace_back(text, word);
        return found->second;
    }

    bool accepts(int32_t test, int32_t symbol) {
        signed char &known = slot(accepted_, test, symbol);
        if (known == 0) {
            const std::string &spelled = text(symbol);
            nb::gil_scoped_acquire lock;
            known = nb::cast<bool>(oracle_.attr("accepts")(test, as_bytes(spelled), is_word(symbol))) ? 2 : 1;
        }
        return known == 2;
    }

    // The number of a group's text in the match of a test's regular expression; -1 without a match or such a group.
    int32_t group(int32_t test, int32_t symbol, int32_t number) {
        const auto key = std::make_pair(test, symbol);
        auto found = groups_.find(key);
        if (found == groups_.end()) {
            const std::string &spelled = text(symbol);
            std::vector<int32_t> groups;
            nb::gil_scoped_acquire lock;
            nb::object value = oracle_.attr("groups")(test, as_bytes(spelled));
            for (nb::handle each : nb::borrow<nb::list>(value))
                groups.push_back(each.is_none() ? -1 : value_number(from_bytes(each)));
            found = groups_.emplace(key, std::move(groups)).first;
        }
        const auto &groups = found->second;
        return static_cast<std::size_t>(number) < groups.size() ? groups[static_cast<std::size_t>(number)] : -1;
    }

    // Count work; now and then, let Python interrupt it.
    void work(int64_t steps) {
        if ((worked_ += steps) < 5'000'000) return;
        worked_ = 0;
        nb::gil_scoped_acquire lock;
        oracle_.attr("check")();
    }

    const std::string &value(int32_t number) const { return values_[static_cast<std::size_t>(number)]; }

    // The index of the head among children with these symbols below a label.
    int32_t head(const std::vector<int32_t> &family) {
        const auto found = heads_.find(family);
        if (found != heads_.end()) return found->second;
        for (const int32_t symbol : family) text(symbol);
        nb::gil_scoped_acquire lock;
        nb::list labels;
        for (const int32_t symbol : family) labels.append(as_bytes(text(symbol)));
        const auto index = nb::cast<int32_t>(oracle_.attr("head")(labels));
        heads_.emplace(family, index);
        return index;
    }

    // What Python makes of a text: `oracle.NAME(number, text)`, a text or a list of texts.
    std::vector<std::string> ask(const char *name, int32_t number, const std::string &text) {
        nb::gil_scoped_acquire lock;
        std::vector<std::string> answer;
        for (nb::handle each : nb::list(oracle_.attr(name)(number, as_bytes(text)))) answer.push_back(from_bytes(each));
        return answer;
    }
    static nb::bytes as_bytes(const std::string &text) { return nb::bytes(text.data(), text.size()); }
    static std::string from_bytes(nb::handle value) {
        const auto text = nb::cast<nb::bytes>(value);
        return std::string(text.c_str(), text.size());
    }
    const std::vector<std::pair<std::string, bool>> &made() const { return made_; }

  private:
    struct PairHash {
        std::size_t operator()(const std::pair<int32_t, int32_t> &key) const {
            return std::hash<int64_t>()((static_cast<int64_t>(key.first) << 32) ^ key.second);
        }
    };
    struct FamilyHash {
        std::size_t operator()(const std::vector<int32_t> &family) const {
            uint64_t sum = 1469598103934665603ull;
            for (const int32_t symbol : family) sum = (sum ^ static_cast<uint32_t>(symbol)) * 1099511628211ull;
            return static_cast<std::size_t>(sum);
        }
    };

    void fetch() {
        if (static_cast<Index>(texts_.size()) == size_) return;
        nb::gil_scoped_acquire lock;
        texts_.reserve(static_cast<std::size_t>(size_));
        for (nb::handle each : nb::list(oracle_.attr("texts")())) texts_.push_back(from_bytes(each));
    }

    int32_t value_number(const std::string &text) {
        const auto [found, is_new] = value_numbers_.try_emplace(text, static_cast<int32_t>(values_.size()));
        if (is_new) values_.push_back(text);
        return found->second;
    }

    signed char &slot(std::vector<std::vector<signed char>> &table, int32_t row, int32_t column) {
        if (table.size() <= static_cast<std::size_t>(row)) table.resize(static_cast<std::size_t>(row) + 1);
        auto &cells = table[static_cast<std::size_t>(row)];
        if (cells.size() <= static_cast<std::size_t>(column)) cells.resize(static_cast<std::size_t>(size()), 0);
        return cells[static_cast<std::size_t>(column)];
    }

    nb::object oracle_;
    Index n_labels_, size_;
    int64_t worked_ = 0;
    std::vector<std::string> texts_, values_;
    std::vector<std::pair<std::string, bool>> made_;
    std::unordered_map<std::string, int32_t> numbers_[2], value_numbers_;
    std::vector<std::vector<signed char>> accepted_;
    std::unordered_map<std::pair<int32_t, int32_t>, std::vector<int32_t>, PairHash> groups_;
    std::unordered_map<std::vector<int32_t>, int32_t, FamilyHash> heads_;
};

// A pattern's table: a row per part, the last one of the root; and the lists that rows have ranges of. Tests are numbered in
// all patterns together.
struct PatternTable {
    Matrix<const int32_t> parts;
    Vector<const int32_t> lists;
    Index n_names = 0, n_variables = 0;
};

// Places of the words of each node of a tree whose words are not in the order of its leaves: the words before its first one,
// and those up to its last one. `by_first` has the nodes in the order of their first words, parents before children.
struct WordOrder {
    std::vector<int32_t> first, last, by_first;

    void load(const int64_t *first_words, const int64_t *last_words, Index size) {
        first.resize(static_cast<std::size_t>(size));
        last.resize(first.size());
        by_first.resize(first.size());
        for (Index node = 0; node < size; ++node) {
            first[static_cast<std::size_t>(node)] = static_cast<int32_t>(first_words[node] - first_words[0]);
            last[static_cast<std::size_t>(node)] = static_cast<int32_t>(last_words[node] - first_words[0]);
            by_first[static_cast<std::size_t>(node)] = static_cast<int32_t>(node);
        }
        std::stable_sort(by_first.begin(), by_first.end(), [this](int32_t one, int32_t other) {
            return first[static_cast<std::size_t>(one)] < first[static_cast<std::size_t>(other)];
        });
    }
};

class PatternMatcher {
  public:
    // Raised when a match takes more than `most_steps` steps.
    struct TooLong {};

    PatternMatcher(const PatternTable &table, Spellings &spellings, int64_t most_steps)
        : names(static_cast<std::size_t>(table.n_names), no_node), variables(static_cast<std::size_t>(table.n_variables), -1),
          table_(table), spellings_(spellings), most_steps_(most_steps),
          known_(static_cast<std::size_t>(table.parts.shape[0])) {}

    // Nodes of names and numbers of the values of variables in the match that was found; -1 if there is none.
    std::vector<int32_t> names, variables;

    // Match in this tree from now on. `held`, if given, has the truth of pure parts, and bounds of others, at each node: a row
    // per part, `stride` apart. `order` is given if the words are not in the order of the leaves.
    void enter(const LinkedTree &tree, const uint8_t *held = nullptr, Index stride = 0, const WordOrder *order = nullptr) {
        tree_ = &tree;
        order_ = order;
        held_ = held;
        stride_ = stride;
        steps_ = 0;
        change();
    }

    // Forget what was known: the tree has changed.
    void change() { ++version_; }

    int64_t steps() const { return steps_; }

    // Whether the pattern matches at a node; then names and variables are bound.
    bool matches(int32_t node) {
        std::fill(names.begin(), names.end(), no_node);
        std::fill(variables.begin(), variables.end(), -1);
        const Goal goal{static_cast<int32_t>(table_.parts.shape[0]) - 1, node, nullptr};
        return solve(&goal, nullptr, true);
    }

  private:
    struct Goal {
        int32_t part, node;
        const Goal *next;
    };

    int32_t column(int32_t part, int number) const { return table_.parts(part, number); }
    bool is_pure(int32_t part) const { return column(part, 6) != 0; }
    bool binds(int32_t part) const { return column(part, 7) != 0; }

    void step() {
        if (++steps_ > most_steps_) throw TooLong();
    }

    // Whether a pure part holds at a node.
    bool holds(int32_t part, int32_t node) {
        if (held_) return held_[part * stride_ + node];
        auto &known = known_[static_cast<std::size_t>(part)];
        if (known.size() < static_cast<std::size_t>(tree_->size())) known.resize(static_cast<std::size_t>(tree_->size()), 0);
        const int64_t value = known[static_cast<std::size_t>(node)];
        if (value >> 1 == version_) return value & 1;
        step();
        const bool found = compute(part, node);
        known_[static_cast<std::size_t>(part)][static_cast<std::size_t>(node)] = version_ << 1 | found;
        return found;
    }

    bool compute(int32_t part, int32_t node) {
        switch (column(part, 0)) {
            case node_part:
                return spellings_.accepts(column(part, 1), tree_->symbols[LinkedTree::at(node)]) &&
                       (column(part, 2) < 0 || holds(column(part, 2), node));
            case related_part: {
                const int32_t target = column(part, 3);
                return each(part, node, [&](int32_t other) { return holds(target, other); });
            }
            case not_part:
                return !holds(column(part, 1), node);
            case and_part:
                for (int32_t k = column(part, 1); k < column(part, 2); ++k)
                    if (!holds(table_.lists[k], node)) return false;
                return true;
            case or_part:
                for (int32_t k = column(part, 1); k < column(part, 2); ++k)
                    if (holds(table_.lists[k], node)) return true;
                return false;
            default:
                return true;
        }
    }

    // Whether all goals can be met, and then no clause in `refused` holds; there, ~part requires the label of a named node.
    // The names stay bound if `keep`.
    bool solve(const Goal *goals, const Goal *refused, bool keep) {
        step();
        if (!goals) {
            for (; refused; refused = refused->next) {
                const Goal goal{refused->part, refused->node, nullptr};
                if (refused->part < 0 ? !has_label_of(~refused->part, refused->node) : solve(&goal, nullptr, false))
                    return false;
            }
            return true;
        }
        const auto [part, node, rest] = *goals;
        if (is_pure(part)) {
            if (!holds(part, node)) return false;
            if (!binds(part) || !keep) return solve(rest, refused, keep);
        } else if (held_ && !held_[part * stride_ + node]) {
            return false;
        }
        switch (column(part, 0)) {
            case node_part:
                return solve_node(part, node, rest, refused, keep);
            case reference_part:
                return solve_reference(part, node, rest, refused, keep);
            case related_part: {
                const int32_t target = column(part, 3);
                return each(part, node, [&](int32_t other) {
                    const Goal goal{target, other, rest};
                    return solve(&goal, refused, keep);
                });
            }
            case not_part: {
                if (is_pure(part)) return solve(rest, refused, keep);
                const Goal goal{column(part, 1), node, refused};
                return solve(rest, &goal, keep);
            }
            case and_part:
                return solve_all(column(part, 1), column(part, 2), node, rest, refused, keep);
            case or_part:
                for (int32_t k = column(part, 1); k < column(part, 2); ++k) {
                    const Goal goal{table_.lists[k], node, rest};
                    if (solve(&goal, refused, keep)) return true;
                }
                return false;
            default: {
                const Goal goal{column(part, 1), node, rest};
                return solve(&goal, refused, keep) || solve(rest, refused, keep);
            }
        }
    }

    bool solve_all(int32_t k, int32_t end, int32_t node, const Goal *rest, const Goal *refused, bool keep) {
        if (k == end) return solve(rest, refused, keep);
        std::vector<Goal> goals(static_cast<std::size_t>(end - k));
        for (std::size_t i = goals.size(); i-- > 0;)
            goals[i] = {table_.lists[k + static_cast<int32_t>(i)], node, i + 1 < goals.size() ? &goals[i + 1] : rest};
        return solve(goals.data(), refused, keep);
    }

    bool solve_clause(int32_t clause, int32_t node, const Goal *rest, const Goal *refused, bool keep) {
        if (clause < 0) return solve(rest, refused, keep);
        const Goal goal{clause, node, rest};
        return solve(&goal, refused, keep);
    }

    bool solve_node(int32_t part, int32_t node, const Goal *rest, const Goal *refused, bool keep) {
        const int32_t test = column(part, 1), symbol = tree_->symbols[LinkedTree::at(node)];
        if (!spellings_.accepts(test, symbol)) return false;
        const int32_t name = column(part, 3);
        const int32_t former = name < 0 ? no_node : names[static_cast<std::size_t>(name)];
        if (former != no_node && former != node) return false;
        const std::vector<int32_t> before = column(part, 4) < column(part, 5) ? variables : std::vector<int32_t>();
        for (int32_t k = column(part, 4); k < column(part, 5); k += 2) {
            const int32_t value = spellings_.group(test, symbol, table_.lists[k]);
            int32_t &bound = variables[static_cast<std::size_t>(table_.lists[k + 1])];
            if (value < 0 || (bound >= 0 && bound != value)) {
                variables = before;
                return false;
            }
            bound = value;
        }
        if (name >= 0) names[static_cast<std::size_t>(name)] = node;
        const bool found = solve_clause(column(part, 2), node, rest, refused, keep);
        if (!found || !keep) {
            if (name >= 0) names[static_cast<std::size_t>(name)] = former;
            if (!before.empty()) variables = before;
        }
        return found;
    }

    bool solve_reference(int32_t part, int32_t node, const Goal *rest, const Goal *refused, bool keep) {
        int32_t &bound = names[static_cast<std::size_t>(column(part, 3))];
        const int32_t former = bound, symbol = tree_->symbols[LinkedTree::at(node)];
        if (column(part, 4)) {
            // The node with the name is perhaps unknown yet; labels are compared at the end.
            const Goal goal{~part, node, refused};
            return solve_clause(column(part, 2), node, rest, &goal, keep);
        }
        if (former == no_node) {
            if (!spellings_.accepts(column(part, 1), symbol)) return false;
            bound = node;
        } else if (former != node) {
            return false;
        }
        const bool found = solve_clause(column(part, 2), node, rest, refused, keep);
        if (!found || !keep) names[static_cast<std::size_t>(column(part, 3))] = former;
        return found;
    }

    bool has_label_of(int32_t reference, int32_t node) const {
        const int32_t named = names[static_cast<std::size_t>(column(reference, 3))];
        return named != no_node && tree_->symbols[LinkedTree::at(named)] == tree_->symbols[LinkedTree::at(node)];
    }

    int32_t head_of(int32_t parent) {
        family_.assign(1, tree_->symbols[LinkedTree::at(parent)]);
        for (int32_t child = tree_->first[LinkedTree::at(parent)]; child != no_node; child = tree_->next[LinkedTree::at(child)])
            family_.push_back(tree_->symbols[LinkedTree::at(child)]);
        int32_t child = tree_->first[LinkedTree::at(parent)];
        for (int32_t index = spellings_.head(family_); index > 0; --index) child = tree_->next[LinkedTree::at(child)];
        return child;
    }

    // The only child of a node that is of a kind; `no_node` if there is none.
    int32_t child_of_kind(int32_t parent, int32_t kind) {
        const LinkedTree &tree = *tree_;
        int32_t child = tree.first[LinkedTree::at(parent)];
        if (child == no_node) return no_node;
        if (kind == only_child) return tree.is_last(child) ? child : no_node;
        if (kind == head_child) return head_of(parent);
        if (kind < 0) child = tree.last[LinkedTree::at(parent)];
        for (int32_t number = kind < 0 ? -kind : kind; number > 1 && child != no_node; --number)
            step(), child = (kind < 0 ? tree.previous : tree.next)[LinkedTree::at(child)];
        return child;
    }

    // Call `visit` for the nodes that a node has a relation to, until it returns true; return whether it did. Several nodes
    // come nearest first where the relation has a direction, else from left to right.
    template <class Visit> bool each(int32_t part, int32_t node, Visit &&visit_node) {
        const LinkedTree &tree = *tree_;
        const int32_t number = column(part, 2);
        const auto at = [](int32_t n) { return LinkedTree::at(n); };
        const auto visit = [&](int32_t other) {
            step();
            return visit_node(other);
        };
        const int32_t parent = node == tree.root ? no_node : tree.parents[at(node)];
        switch (column(part, 1)) {
            case parent_of:
                if (number == any_child) {
                    for (int32_t child = tree.first[at(node)]; child != no_node; child = tree.next[at(child)])
                        if (visit(child)) return true;
                    return false;
                } else {
                    const int32_t child = child_of_kind(node, number);
                    return child != no_node && visit(child);
                }
            case child_of:
                return parent != no_node && (number == any_child || child_of_kind(parent, number) == node) && visit(parent);
            case dominates:
                for (int32_t other = tree.following(node, node); other != no_node; other = tree.following(other, node))
                    if (visit(other)) return true;
                return false;
            case dominated_by:
                for (int32_t other = node; other != tree.root;)
                    if (visit(other = tree.parents[at(other)])) return true;
                return false;
            case dominates_by:
                for (int32_t other = child_of_kind(node, number); other != no_node; other = child_of_kind(other, number))
                    if (visit(other)) return true;
                return false;
            case dominated_through:
                for (int32_t other = node; other != tree.root && child_of_kind(tree.parents[at(other)], number) == other;)
                    if (visit(other = tree.parents[at(other)])) return true;
                return false;
            case same_node:
                return visit(node);
            case same_or_parent_of:
                if (visit(node)) return true;
                for (int32_t child = tree.first[at(node)]; child != no_node; child = tree.next[at(child)])
                    if (visit(child)) return true;
                return false;
            case anywhere:
                for (int32_t other = tree.root; other != no_node; other = tree.following(other, tree.root))
                    if (visit(other)) return true;
                return false;
            case just_before:
                return each_next(node, visit);
            case just_after:
                return each_previous(node, visit);
            case before:
                if (order_) return each_later(node, false, visit);
                for (int32_t other = tree.following_subtree(node, tree.root); other != no_node;
                     other = tree.following(other, tree.root))
                    if (visit(other)) return true;
                return false;
            case after:
                if (order_) return each_earlier(node, visit);
                // Backwards: the last nodes below earlier sisters of the node and of those above it.
                for (int32_t above = node; above != tree.root; above = tree.parents[at(above)])
                    for (int32_t before_it = tree.previous[at(above)]; before_it != no_node;
                         before_it = tree.previous[at(before_it)])
                        if (each_backwards(before_it, visit)) return true;
                return false;
            case sister:
                if (parent == no_node) return false;
                for (int32_t other = tree.first[at(parent)]; other != no_node; other = tree.next[at(other)])
                    if (other != node && visit(other)) return true;
                return false;
            case next_sister:
                return parent != no_node && !tree.is_last(node) && visit(tree.next[at(node)]);
            case previous_sister:
                return parent != no_node && !tree.is_first(node) && visit(tree.previous[at(node)]);
            case later_sister:
                if (parent == no_node) return false;
                for (int32_t other = tree.next[at(node)]; other != no_node; other = tree.next[at(other)])
                    if (visit(other)) return true;
                return false;
            case earlier_sister:
                if (parent == no_node) return false;
                for (int32_t other = tree.previous[at(node)]; other != no_node; other = tree.previous[at(other)])
                    if (visit(other)) return true;
                return false;
            default:
                return each_on_paths(part, node, visit);
        }
    }

    // The nodes that begin right after a node, outermost first.
    template <class Visit> bool each_next(int32_t node, Visit &visit) {
        if (order_) return each_later(node, true, visit);
        const LinkedTree &tree = *tree_;
        for (int32_t other = tree.following_subtree(node, tree.root); other != no_node;
             other = tree.first[LinkedTree::at(other)])
            if (visit(other)) return true;
        return false;
    }

    // The nodes that end right before a node, outermost first.
    template <class Visit> bool each_previous(int32_t node, Visit &visit) {
        if (order_) {
            const int32_t begin = order_->first[LinkedTree::at(node)];
            for (const int32_t other : order_->by_first)
                if (step(), order_->last[LinkedTree::at(other)] == begin && visit(other)) return true;
            return false;
        }
        const LinkedTree &tree = *tree_;
        while (node != tree.root && tree.is_first(node)) node = tree.parents[LinkedTree::at(node)];
        if (node == tree.root) return false;
        for (int32_t other = tree.previous[LinkedTree::at(node)]; other != no_node; other = tree.last[LinkedTree::at(other)])
            if (visit(other)) return true;
        return false;
    }

    // The nodes that begin after the last word of a node, or right after it, in the order of their first words.
    template <class Visit> bool each_later(int32_t node, bool only_next, Visit &visit) {
        const WordOrder &order = *order_;
        const int32_t end = order.last[LinkedTree::at(node)];
        auto at = std::lower_bound(order.by_first.begin(), order.by_first.end(), end, [&order](int32_t other, int32_t place) {
            return order.first[LinkedTree::at(other)] < place;
        });
        for (; at != order.by_first.end() && !(only_next && order.first[LinkedTree::at(*at)] > end); ++at)
            if (visit(*at)) return true;
        return false;
    }

    // The nodes that end before the first word of a node, backwards.
    template <class Visit> bool each_earlier(int32_t node, Visit &visit) {
        const WordOrder &order = *order_;
        const int32_t begin = order.first[LinkedTree::at(node)];
        for (auto at = order.by_first.rbegin(); at != order.by_first.rend(); ++at)
            if (step(), order.last[LinkedTree::at(*at)] <= begin && visit(*at)) return true;
        return false;
    }

    // A subtree in reverse preorder.
    template <class Visit> bool each_backwards(int32_t top, Visit &visit) {
        const LinkedTree &tree = *tree_;
        int32_t node = top;
        while (tree.last[LinkedTree::at(node)] != no_node) node = tree.last[LinkedTree::at(node)];
        for (;;) {
            if (visit(node)) return true;
            if (node == top) return false;
            if (tree.is_first(node)) {
                node = tree.parents[LinkedTree::at(node)];
            } else {
                node = tree.previous[LinkedTree::at(node)];
                while (tree.last[LinkedTree::at(node)] != no_node) node = tree.last[LinkedTree::at(node)];
            }
        }
    }

    // The nodes at the end of paths of one step or more, all of whose nodes in between hold: breadth first.
    template <class Visit> bool each_on_paths(int32_t part, int32_t start, Visit &visit) {
        const LinkedTree &tree = *tree_;
        const int32_t relation = column(part, 1), between = column(part, 4);
        std::vector<uint8_t> seen(static_cast<std::size_t>(tree.size()), 0);
        std::vector<int32_t> waiting{start};
        for (std::size_t k = 0; k < waiting.size(); ++k) {
            const auto reach = [&](int32_t other) {
                if (seen[LinkedTree::at(other)]) return false;
                seen[LinkedTree::at(other)] = 1;
                if (visit(other)) return true;
                if (holds(between, other)) waiting.push_back(other);
                return false;
            };
            const int32_t node = waiting[k];
            bool found = false;
            if (relation == path_down) {
                for (int32_t child = tree.first[LinkedTree::at(node)]; child != no_node && !found;
                     child = tree.next[LinkedTree::at(child)])
                    found = reach(child);
            } else if (relation == path_up) {
                found = node != tree.root && reach(tree.parents[LinkedTree::at(node)]);
            } else {
                found = relation == path_before ? each_next(node, reach) : each_previous(node, reach);
            }
            if (found) return true;
        }
        return false;
    }

    const PatternTable table_;
    Spellings &spellings_;
    const int64_t most_steps_;
    int64_t steps_ = 0, version_ = 0;
    const LinkedTree *tree_ = nullptr;
    const WordOrder *order_ = nullptr;
    const uint8_t *held_ = nullptr;
    Index stride_ = 0;
    std::vector<std::vector<int64_t>> known_;
    std::vector<int32_t> family_;
};

}  // namespace sapwood
