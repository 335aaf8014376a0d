// Rewriting of trees by rules: a pattern and operations on its named nodes.
//
// Each rule visits the nodes of a tree in preorder. Where its pattern matches, its operations are applied, until it matches no
// longer there; after the last node it begins again, until a whole pass finds no match. Then the next rule's turn comes.
//
// In trees with gaps, words keep their places, so operations add no words, and children are sorted by their first words after
// each match.
#include <algorithm>
#include <map>
#include <optional>

#include "core/module.hpp"
#include "trees/pattern_matcher.hpp"

namespace sapwood {
namespace {

// What an operation does; its columns in the table of operations are behind it. Names are numbers of the rule's names, texts
// and trees those of its templates; -1 stands for none. Destinations have a kind, a number and a name.
enum Operation : int32_t {
    relabel,        // name, text
    relabel_regex,  // name, regular expression
    delete_nodes,   // range of names in `lists`
    prune_nodes,    // the same
    excise,         // top, bottom
    insert_tree,    // name or -1, tree, destination kind, number, name
    move_node,      // name, destination kind, number, name
    replace_nodes,  // name, range of `lists`: names, or ~tree
    wrap_nodes,     // text, first, last
    adjoin,         // tree, name, what remains of the named node: 0 nothing, 1 the root, 2 the foot
    coindex,        // range of names
    split_word,     // name, regular expression, range of texts in `lists`
    join_words,     // left, right, text or -1
};
enum Destination : int32_t { left_of, right_of, nth_child };
constexpr int operation_columns = 6;
// Bytes of a label that a rule makes of others: rules that repeat their own result would fill the memory.
constexpr std::size_t longest_label = 1 << 16;

// Why an operation cannot be applied. Python has the messages.
enum Refusal : int32_t {
    none,
    is_a_word,
    is_the_root,
    becomes_empty,
    not_dominated,
    into_itself,
    not_a_phrase,
    no_such_child,
    not_sisters,
    empty_label,
    not_split,
    not_adjacent,
    is_deleted,
    too_long,
    words_changed,
    endless,
    too_many_steps,
    too_many_nodes,
};

struct Refused {
    Refusal refusal;
    int32_t operation;
    int32_t symbol;
};

struct RuleTables {
    Vector<const int64_t> part_bounds, list_bounds, operation_bounds, name_counts, variable_counts;
    Matrix<const int32_t> parts;
    Vector<const int32_t> lists;
    Matrix<const int32_t> operations;
    Vector<const int32_t> operation_lists;
    // Texts are sequences of pieces: a number of a constant, or a name's label, or a variable's value.
    Vector<const int64_t> text_bounds;
    Matrix<const int32_t> pieces;
    // Trees are nodes in preorder: text, whether it is a word, number of children, name or -1, whether it is the foot.
    Vector<const int64_t> tree_bounds;
    Matrix<const int32_t> tree_nodes;
};

class TreeEditor {
  public:
    TreeEditor(const RuleTables &tables, std::vector<std::string> constants, Spellings &spellings)
        : tables_(tables), constants_(std::move(constants)), spellings_(spellings) {}

    LinkedTree tree;
    // Number of nodes visited by operations.
    int64_t visited = 0;

    void begin() { largest_index_.reset(); }

    // Apply the operations `first .. last - 1` to the nodes and values of a match.
    void apply(Index first, Index last, std::vector<int32_t> &names, const std::vector<int32_t> &variables) {
        names_ = &names;
        variables_ = &variables;
        for (Index k = first; k < last; ++k) {
            row_ = tables_.operations.row(k);
            operation_ = static_cast<int32_t>(k);
            apply_one();
        }
    }

  private:
    static std::size_t at(int32_t node) { return LinkedTree::at(node); }

    [[noreturn]] void refuse(Refusal refusal, int32_t node) const {
        throw Refused{refusal, operation_, node == no_node ? -1 : tree.symbols[at(node)]};
    }

    bool is_word(int32_t node) const { return spellings_.is_word(tree.symbols[at(node)]); }
    bool is_tag(int32_t node) const { return tree.first[at(node)] != no_node && is_word(tree.first[at(node)]); }

    // The node of a name, or `no_node` if the match has none; the operation is then skipped.
    int32_t named(int32_t name) const {
        const int32_t node = (*names_)[at(name)];
        if (node != no_node && !tree.attached[at(node)]) refuse(is_deleted, node);
        return node;
    }
    int32_t named_phrase(int32_t name) const {
        const int32_t node = named(name);
        if (node != no_node && is_word(node)) refuse(is_a_word, node);
        return node;
    }

    std::string text(int32_t number) {
        std::string result;
        for (Index k = tables_.text_bounds[number]; k < tables_.text_bounds[number + 1]; ++k) {
            const int32_t *piece = tables_.pieces.row(k);
            if (piece[0] == 0) {
                result += constants_[at(piece[1])];
            } else if (piece[0] == 1) {
                const int32_t node = (*names_)[at(piece[1])];
                if (node != no_node) result += spellings_.text(tree.symbols[at(node)]);
            } else if ((*variables_)[at(piece[1])] >= 0) {
                result += spellings_.value((*variables_)[at(piece[1])]);
            }
            if (result.size() > longest_label) refuse(too_long, no_node);
        }
        return result;
    }

    int32_t label(int32_t number) {
        const std::string spelled = text(number);
        if (spelled.empty()) refuse(empty_label, no_node);
        return spellings_.intern(spelled, false);
    }

    void set_symbol(int32_t node, const std::string &spelled) {
        if (spelled.empty()) refuse(empty_label, node);
        tree.symbols[at(node)] = spellings_.intern(spelled, is_word(node));
        if (largest_index_) largest_index_ = std::max(*largest_index_, index_of(tree.symbols[at(node)]));
    }

    void detach(int32_t top) {
        for (int32_t node = top; node != no_node; node = tree.following(node, top)) ++visited, tree.attached[at(node)] = 0;
    }

    void apply_one() {
        switch (row_[0]) {
            case relabel:
                if (const int32_t node = named(row_[1]); node != no_node) set_symbol(node, text(row_[2]));
                return;
            case relabel_regex:
                if (const int32_t node = named(row_[1]); node != no_node)
                    set_symbol(node, replaced(row_[2], tree.symbols[at(node)]));
                return;
            case delete_nodes:
            case prune_nodes:
                for (int32_t k = row_[1]; k < row_[2]; ++k)
                    if (const int32_t node = named_phrase(tables_.operation_lists[k]); node != no_node) remove(node);
                return;
            case excise:
                return do_excise();
            case insert_tree:
                return do_insert();
            case move_node:
                return do_move();
            case replace_nodes:
                return do_replace();
            case wrap_nodes:
                return do_wrap();
            case adjoin:
                return do_adjoin();
            case coindex:
                return do_coindex();
            case split_word:
                return do_split();
            case join_words:
                return do_join();
            default:
                return;
        }
    }

    void remove(int32_t node) {
        for (;;) {
            if (node == tree.root) refuse(is_the_root, node);
            const int32_t parent = tree.parents[at(node)];
            const bool alone = tree.is_first(node) && tree.is_last(node);
            if (alone && row_[0] == delete_nodes) refuse(becomes_empty, parent);
            if (!alone) break;
            node = parent;
        }
        detach(node);
        tree.unlink(node);
    }

    void do_excise() {
        const int32_t top = named_phrase(row_[1]), bottom = named_phrase(row_[2]);
        if (top == no_node || bottom == no_node) return;
        for (int32_t node = bottom; node != top; node = tree.parents[at(node)])
            if (node == tree.root) refuse(not_dominated, bottom);
        if (is_tag(bottom)) refuse(not_a_phrase, bottom);
        const int32_t kept = tree.first[at(bottom)];
        if (top == tree.root) {
            if (!tree.is_last(kept)) refuse(is_the_root, top);
            tree.unlink(kept);
            detach(top);
            tree.root = kept;
            return;
        }
        while (tree.first[at(bottom)] != no_node) {
            const int32_t child = tree.first[at(bottom)];
            ++visited;
            tree.unlink(child);
            tree.insert(child, tree.parents[at(top)], top);
        }
        detach(top);
        tree.unlink(top);
    }

    // The parent below which, and the child before which, something is to be placed.
    std::optional<std::pair<int32_t, int32_t>> destination(const int32_t *place, int32_t moved) {
        const int32_t node = named_phrase(place[2]);
        if (node == no_node) return std::nullopt;
        if (place[0] != nth_child) {
            if (node == tree.root) refuse(is_the_root, node);
            const int32_t before = place[0] == left_of ? node : tree.next[at(node)];
            // A node that moves next to itself stays where it is.
            return std::make_pair(tree.parents[at(node)],
                                  before == moved && before != no_node ? tree.next[at(before)] : before);
        }
        if (is_tag(node)) refuse(not_a_phrase, node);
        int32_t before = place[1] > 0 ? tree.first[at(node)] : no_node;
        const auto skip = [&](int32_t child) { return child != no_node && child == moved; };
        if (place[1] > 0) {
            if (skip(before)) before = tree.next[at(before)];
            for (int32_t k = 1; k < place[1]; ++k) {
                if (before == no_node) refuse(no_such_child, node);
                before = tree.next[at(before)];
                if (skip(before)) before = tree.next[at(before)];
            }
        } else {
            for (int32_t k = -1; k > place[1]; --k) {
                before = before == no_node ? tree.last[at(node)] : tree.previous[at(before)];
                if (skip(before)) before = tree.previous[at(before)];
                if (before == no_node) refuse(no_such_child, node);
            }
        }
        return std::make_pair(node, before);
    }

    void do_insert() {
        const int32_t source = row_[1] < 0 ? no_node : named_phrase(row_[1]);
        if (row_[1] >= 0 && source == no_node) return;
        const auto place = destination(row_ + 3, no_node);
        if (!place) return;
        const int32_t made = row_[1] < 0 ? build(row_[2]) : copy(source);
        tree.insert(made, place->first, place->second);
    }

    void do_move() {
        const int32_t node = named_phrase(row_[1]);
        if (node == no_node) return;
        const auto place = destination(row_ + 2, node);
        if (!place) return;
        for (int32_t above = place->first;; above = tree.parents[at(above)]) {
            if (above == node) refuse(into_itself, node);
            if (above == tree.root) break;
        }
        // Phrases that the move leaves empty go, as with prune.
        int32_t empty = tree.parents[at(node)];
        tree.unlink(node);
        tree.insert(node, place->first, place->second);
        while (tree.first[at(empty)] == no_node) {
            const int32_t above = tree.parents[at(empty)];
            tree.attached[at(empty)] = 0;
            tree.unlink(empty);
            empty = above;
        }
    }

    void do_replace() {
        const int32_t node = named_phrase(row_[1]);
        if (node == no_node) return;
        std::vector<int32_t> made;
        for (int32_t k = row_[2]; k < row_[3]; ++k) {
            const int32_t item = tables_.operation_lists[k];
            const int32_t source = item < 0 ? no_node : named_phrase(item);
            if (item < 0) made.push_back(build(~item));
            else if (source != no_node) made.push_back(copy(source));
        }
        if (!made.empty()) put_in_place(node, made);
    }

    // Replace a node by others.
    void put_in_place(int32_t node, const std::vector<int32_t> &others) {
        if (node == tree.root && others.size() != 1) refuse(is_the_root, node);
        detach(node);
        if (node == tree.root) {
            tree.root = others[0];
            return;
        }
        for (const int32_t other : others) tree.insert(other, tree.parents[at(node)], node);
        tree.unlink(node);
    }

    void do_wrap() {
        const int32_t from = named_phrase(row_[2]), to = named_phrase(row_[3]);
        if (from == no_node || to == no_node) return;
        const int32_t made = tree.add(label(row_[1]));
        if (from == tree.root) {
            if (to != from) refuse(not_sisters, to);
            tree.root = made;
            tree.append(from, made);
            return;
        }
        int32_t end = from;
        while (end != no_node && end != to) ++visited, end = tree.next[at(end)];
        if (end == no_node) refuse(not_sisters, to);
        tree.insert(made, tree.parents[at(from)], from);
        for (int32_t node = from;;) {
            const int32_t after = tree.next[at(node)];
            tree.unlink(node);
            tree.append(node, made);
            if (node == to) return;
            node = after;
        }
    }

    void do_adjoin() {
        const int32_t node = named_phrase(row_[2]);
        if (node == no_node) return;
        if (row_[3] != 2 && is_tag(node)) refuse(not_a_phrase, node);
        int32_t foot = no_node;
        const int32_t top = build(row_[1], &foot);
        if (row_[3] == 2) {
            // The node itself is the foot.
            tree.substitute(node, top);
            tree.substitute(foot, node);
            tree.attached[at(foot)] = 0;
            return;
        }
        while (tree.first[at(node)] != no_node) {
            const int32_t child = tree.first[at(node)];
            ++visited;
            tree.unlink(child);
            tree.append(child, foot);
        }
        if (row_[3] == 1) {
            // The node itself is the root, with the children of the tree's root.
            while (tree.first[at(top)] != no_node) {
                const int32_t child = tree.first[at(top)];
                tree.unlink(child);
                tree.append(child, node);
            }
            tree.attached[at(top)] = 0;
            return;
        }
        tree.substitute(node, top);
        tree.attached[at(node)] = 0;
    }

    // The index that a label ends in (NP-SBJ-1, NP=2), or a trace (*T*-1); 0 if there is none.
    int32_t index_of(int32_t symbol) {
        const std::string &spelled = spellings_.text(symbol);
        if (spellings_.is_word(symbol) && (spelled.empty() || spelled[0] != '*')) return 0;
        std::size_t begin = spelled.size();
        while (begin > 0 && spelled[begin - 1] >= '0' && spelled[begin - 1] <= '9') --begin;
        if (begin == spelled.size() || begin == 0 || spelled.size() - begin > 8) return 0;
        return spelled[begin - 1] == '-' || spelled[begin - 1] == '=' ? std::stoi(spelled.substr(begin)) : 0;
    }

    void do_coindex() {
        if (!largest_index_) {
            largest_index_ = 0;
            for (int32_t node = tree.root; node != no_node; node = tree.following(node, tree.root))
                largest_index_ = std::max(*largest_index_, index_of(tree.symbols[at(node)]));
        }
        const int32_t index = *largest_index_ + 1;
        for (int32_t k = row_[1]; k < row_[2]; ++k)
            if (const int32_t node = named(tables_.operation_lists[k]); node != no_node)
                set_symbol(node, spellings_.text(tree.symbols[at(node)]) + "-" + std::to_string(index));
    }

    void do_split() {
        int32_t tag = named(row_[1]);
        if (tag == no_node) return;
        if (is_word(tag)) tag = tree.parents[at(tag)];
        if (!is_tag(tag)) refuse(not_a_phrase, tag);
        const int32_t word = tree.first[at(tag)];
        const auto pieces = spellings_.ask("split", row_[2], spellings_.text(tree.symbols[at(word)]));
        if (pieces.size() != static_cast<std::size_t>(row_[4] - row_[3])) refuse(not_split, word);
        std::vector<int32_t> made;
        for (std::size_t k = 0; k < pieces.size(); ++k) {
            made.push_back(tree.add(label(tables_.operation_lists[row_[3] + static_cast<int32_t>(k)])));
            tree.append(tree.add(spellings_.intern(pieces[k], true)), made.back());
        }
        put_in_place(tag, made);
    }

    void do_join() {
        const int32_t left = named_phrase(row_[1]), right = named_phrase(row_[2]);
        if (left == no_node || right == no_node) return;
        if (!is_tag(left)) refuse(not_a_phrase, left);
        if (!is_tag(right)) refuse(not_a_phrase, right);
        int32_t after = tree.following_subtree(left, tree.root);
        while (after != no_node && !is_tag(after)) after = tree.first[at(after)];
        if (after != right) refuse(not_adjacent, right);
        const int32_t word = tree.first[at(left)], other = tree.first[at(right)];
        const std::string joined = spellings_.text(tree.symbols[at(word)]) + spellings_.text(tree.symbols[at(other)]);
        if (row_[3] >= 0) set_symbol(left, text(row_[3]));
        tree.symbols[at(word)] = spellings_.intern(joined, true);
        remove(right);
    }

    std::string replaced(int32_t regex, int32_t symbol) {
        const auto [found, is_new] = replaced_.try_emplace({regex, symbol});
        if (is_new) found->second = spellings_.ask("replaced", regex, spellings_.text(symbol))[0];
        if (found->second.size() > longest_label) refuse(too_long, no_node);
        return found->second;
    }

    // Add the nodes of one of the rule's trees; return its root.
    int32_t build(int32_t number, int32_t *foot = nullptr) {
        int32_t top = no_node;
        std::vector<std::pair<int32_t, int32_t>> open;  // nodes and how many children they still need
        for (Index k = tables_.tree_bounds[number]; k < tables_.tree_bounds[number + 1]; ++k) {
            const int32_t *node = tables_.tree_nodes.row(k);
            const std::string spelled = text(node[0]);
            if (spelled.empty()) refuse(empty_label, no_node);
            const int32_t made = tree.add(spellings_.intern(spelled, node[1] != 0));
            if (largest_index_) largest_index_ = std::max(*largest_index_, index_of(tree.symbols[at(made)]));
            if (node[3] >= 0) (*names_)[at(node[3])] = made;
            if (node[4] && foot) *foot = made;
            if (open.empty()) {
                top = made;
            } else {
                tree.append(made, open.back().first);
                --open.back().second;
            }
            open.emplace_back(made, node[2]);
            while (!open.empty() && open.back().second == 0) open.pop_back();
        }
        return top;
    }

    // Add a copy of a subtree.
    int32_t copy(int32_t source) {
        const int32_t top = tree.add(tree.symbols[at(source)]);
        int32_t from = source, to = top;
        for (;;) {
            const int32_t child = tree.first[at(from)];
            if (child != no_node) {
                const int32_t made = tree.add(tree.symbols[at(child)]);
                tree.append(made, to);
                from = child, to = made;
                continue;
            }
            while (from != source && tree.next[at(from)] == no_node) from = tree.parents[at(from)], to = tree.parents[at(to)];
            if (from == source) return top;
            from = tree.next[at(from)];
            const int32_t made = tree.add(tree.symbols[at(from)]);
            tree.append(made, tree.parents[at(to)]);
            to = made;
        }
    }

    const RuleTables tables_;
    std::vector<std::string> constants_;
    Spellings &spellings_;
    std::vector<int32_t> *names_ = nullptr;
    const std::vector<int32_t> *variables_ = nullptr;
    const int32_t *row_ = nullptr;
    int32_t operation_ = 0;
    std::optional<int32_t> largest_index_;
    std::map<std::pair<int32_t, int32_t>, std::string> replaced_;
};

// The trees after rewriting, as columns.
struct Columns {
    std::vector<int32_t> symbols, parents, ends;
    std::vector<int64_t> begins{0};
    // The position of each word, in trees with gaps.
    std::vector<int64_t> positions;

    void add(const LinkedTree &tree, std::vector<int32_t> &places, const WordOrder *order) {
        const auto begin = static_cast<int32_t>(symbols.size());
        places.resize(static_cast<std::size_t>(tree.size()));
        for (int32_t node = tree.root; node != no_node; node = tree.following(node, tree.root)) {
            places[LinkedTree::at(node)] = static_cast<int32_t>(symbols.size());
            symbols.push_back(tree.symbols[LinkedTree::at(node)]);
            parents.push_back(node == tree.root ? -1 : places[LinkedTree::at(tree.parents[LinkedTree::at(node)])]);
            ends.push_back(static_cast<int32_t>(symbols.size()));
            if (order && tree.first[LinkedTree::at(node)] == no_node) positions.push_back(order->first[LinkedTree::at(node)]);
        }
        for (auto node = static_cast<int32_t>(symbols.size()) - 1; node > begin; --node) {
            int32_t &end = ends[LinkedTree::at(parents[LinkedTree::at(node)])];
            end = std::max(end, ends[LinkedTree::at(node)]);
        }
        begins.push_back(static_cast<int64_t>(symbols.size()));
    }
};

std::vector<int32_t> words_of(const LinkedTree &tree) {
    std::vector<int32_t> words;
    for (int32_t node = tree.root; node != no_node; node = tree.following(node, tree.root))
        if (tree.first[LinkedTree::at(node)] == no_node) words.push_back(tree.symbols[LinkedTree::at(node)]);
    return words;
}

// Numbers of the words of a tree with gaps, from 0; its nodes are sorted by them.
class WordPlaces {
  public:
    WordOrder order;

    // `positions` are those of the words, in the order of the nodes.
    void load(LinkedTree &tree, const int64_t *positions) {
        places_.assign(static_cast<std::size_t>(tree.size()), -1);
        Index word = 0;
        for (int32_t node = 0; node < tree.size(); ++node)
            if (tree.first[LinkedTree::at(node)] == no_node) places_[LinkedTree::at(node)] = positions[word++];
        sort(tree);
    }

    // Number the words that are left, and sort children by their first words.
    void sort(LinkedTree &tree) {
        nodes_.clear();
        words_.clear();
        for (int32_t node = tree.root; node != no_node; node = tree.following(node, tree.root)) {
            nodes_.push_back(node);
            if (tree.first[LinkedTree::at(node)] == no_node) words_.push_back(node);
        }
        std::sort(words_.begin(), words_.end(),
                  [this](int32_t one, int32_t other) { return places_[LinkedTree::at(one)] < places_[LinkedTree::at(other)]; });
        order.first.assign(static_cast<std::size_t>(tree.size()), static_cast<int32_t>(words_.size()));
        order.last.assign(static_cast<std::size_t>(tree.size()), 0);
        for (std::size_t number = 0; number < words_.size(); ++number) {
            order.first[LinkedTree::at(words_[number])] = static_cast<int32_t>(number);
            order.last[LinkedTree::at(words_[number])] = static_cast<int32_t>(number) + 1;
        }
        const auto sooner = [this](int32_t one, int32_t other) {
            return order.first[LinkedTree::at(one)] < order.first[LinkedTree::at(other)];
        };
        for (auto at = nodes_.rbegin(); at != nodes_.rend(); ++at) {
            const int32_t node = *at;
            children_.clear();
            for (int32_t child = tree.first[LinkedTree::at(node)]; child != no_node; child = tree.next[LinkedTree::at(child)]) {
                children_.push_back(child);
                order.first[LinkedTree::at(node)] =
                    std::min(order.first[LinkedTree::at(node)], order.first[LinkedTree::at(child)]);
                order.last[LinkedTree::at(node)] =
                    std::max(order.last[LinkedTree::at(node)], order.last[LinkedTree::at(child)]);
            }
            if (std::is_sorted(children_.begin(), children_.end(), sooner)) continue;
            std::sort(children_.begin(), children_.end(), sooner);
            for (const int32_t child : children_) {
                tree.unlink(child);
                tree.append(child, node);
            }
        }
        order.by_first.clear();
        for (int32_t node = tree.root; node != no_node; node = tree.following(node, tree.root)) order.by_first.push_back(node);
        std::stable_sort(order.by_first.begin(), order.by_first.end(), sooner);
    }

    std::vector<int32_t> words_of(const LinkedTree &tree) const {
        std::vector<int32_t> words;
        for (const int32_t node : words_) words.push_back(tree.symbols[LinkedTree::at(node)]);
        return words;
    }

  private:
    std::vector<int64_t> places_;
    std::vector<int32_t> nodes_, words_, children_;
};

class Rewriter {
  public:
    Rewriter(const RuleTables &tables, std::vector<std::string> constants, Spellings &spellings, int64_t most_rewrites,
             int64_t most_steps, bool allow_word_changes)
        : editor(tables, std::move(constants), spellings), tables_(tables), spellings_(spellings),
          most_rewrites_(most_rewrites), most_steps_(most_steps), allow_word_changes_(allow_word_changes) {
        matchers_.reserve(static_cast<std::size_t>(tables.name_counts.size()));
        for (Index rule = 0; rule < tables.name_counts.size(); ++rule) {
            const Index first = tables.part_bounds[rule], last = tables.part_bounds[rule + 1];
            const PatternTable pattern{{tables.parts.row(first), {last - first, part_columns}},
                                       tables.lists.slice(tables.list_bounds[rule], tables.list_bounds[rule + 1]),
                                       tables.name_counts[rule],
                                       tables.variable_counts[rule]};
            matchers_.emplace_back(pattern, spellings, most_steps);
        }
    }

    TreeEditor editor;
    // The places of words, if there are gaps.
    std::optional<WordPlaces> places;
    // Applications of each rule so far, and the rule at work.
    std::vector<int64_t> rewrites;
    Index rule = 0;

    // Rewrite the editor's tree; return how often.
    int64_t run() {
        editor.begin();
        int64_t total = 0;
        std::vector<int32_t> before;
        for (rule = 0; rule < static_cast<Index>(matchers_.size()); ++rule) {
            PatternMatcher &matcher = matchers_[static_cast<std::size_t>(rule)];
            matcher.enter(editor.tree, nullptr, 0, places ? &places->order : nullptr);
            editor.visited = 0;
            const int64_t done = run_rule(matcher, before, total == 0);
            spellings_.work(matcher.steps() + editor.visited);
            rewrites[static_cast<std::size_t>(rule)] += done;
            total += done;
        }
        return total;
    }

  private:
    int64_t run_rule(PatternMatcher &matcher, std::vector<int32_t> &before, bool untouched) {
        LinkedTree &tree = editor.tree;
        const int64_t size = tree.size();
        const int64_t most = most_rewrites_ > 0 ? most_rewrites_ : 1000 + 10 * size, most_nodes = 10'000 + 100 * size;
        const Index first = tables_.operation_bounds[rule], last = tables_.operation_bounds[rule + 1];
        int64_t total = 0;
        for (bool again = true; again;) {
            again = false;
            nodes_.clear();
            for (int32_t node = tree.root; node != no_node; node = tree.following(node, tree.root)) nodes_.push_back(node);
            for (const int32_t node : nodes_) {
                while (tree.attached[LinkedTree::at(node)] && matches(matcher, node)) {
                    if (++total > most) throw Refused{endless, -1, -1};
                    if (tree.size() > most_nodes) throw Refused{too_many_nodes, -1, -1};
                    if (untouched && total == 1 && !allow_word_changes_) before = words();
                    editor.apply(first, last, matcher.names, matcher.variables);
                    if (places) {
                        places->sort(tree);
                        editor.visited += tree.size();
                    }
                    matcher.change();
                    if (editor.visited > most_steps_) throw Refused{too_many_steps, -1, -1};
                    again = true;
                }
            }
        }
        if (total > 0 && !allow_word_changes_ && words() != before) throw Refused{words_changed, -1, -1};
        return total;
    }

    std::vector<int32_t> words() const { return places ? places->words_of(editor.tree) : words_of(editor.tree); }

    bool matches(PatternMatcher &matcher, int32_t node) const {
        try {
            return matcher.matches(node);
        } catch (const PatternMatcher::TooLong &) {
            throw Refused{too_many_steps, -1, -1};
        }
    }

    const RuleTables tables_;
    Spellings &spellings_;
    const int64_t most_rewrites_, most_steps_;
    const bool allow_word_changes_;
    std::vector<PatternMatcher> matchers_;
    std::vector<int32_t> nodes_;
};

// Return the rewritten trees as columns: symbols (words and labels made anew are numbered behind the others), parents, ends,
// begins; how often each tree and each rule was rewritten; the new spellings (a list of pairs: bytes, whether it is a word);
// what went wrong, if anything: tree, rule, operation, reason, label or word; and the positions of words. `positions` has those
// of the words of all trees, or nothing if words are in the order of the leaves.
nb::tuple rewrite_trees(Vector<const int64_t> part_bounds, Vector<const int64_t> list_bounds,
                        Vector<const int64_t> operation_bounds, Vector<const int64_t> name_counts,
                        Vector<const int64_t> variable_counts, Matrix<const int32_t> parts, Vector<const int32_t> lists,
                        Matrix<const int32_t> operations, Vector<const int32_t> operation_lists,
                        Vector<const int64_t> text_bounds, Matrix<const int32_t> pieces, Vector<const int64_t> tree_bounds,
                        Matrix<const int32_t> tree_nodes, nb::list constants, Index n_spellings, Index n_labels,
                        nb::object oracle, Vector<const int32_t> symbols, Vector<const int32_t> parents,
                        Vector<const int64_t> begins, Vector<const int64_t> positions, int64_t most_rewrites,
                        int64_t most_steps, bool allow_word_changes) {
    check_shape("parts", parts, any_size, part_columns);
    check_shape("operations", operations, any_size, operation_columns);
    std::vector<std::string> texts;
    for (nb::handle each : constants) texts.push_back(Spellings::from_bytes(each));
    Spellings spellings(n_spellings, n_labels, std::move(oracle));
    Columns columns;
    std::vector<int64_t> per_tree, problem;
    std::vector<int64_t> per_rule(static_cast<std::size_t>(name_counts.size()), 0);
    {
        const nb::gil_scoped_release released;
        Rewriter rewriter({part_bounds, list_bounds, operation_bounds, name_counts, variable_counts, parts, lists, operations,
                           operation_lists, text_bounds, pieces, tree_bounds, tree_nodes},
                          std::move(texts), spellings, most_rewrites, most_steps, allow_word_changes);
        rewriter.rewrites = per_rule;
        std::vector<int32_t> places;
        Index word = 0;
        if (positions.size() > 0) rewriter.places.emplace();
        for (Index t = 0; t + 1 < begins.size(); ++t) {
            rewriter.editor.tree.load(symbols.data, parents.data, begins[t], begins[t + 1]);
            if (rewriter.places) {
                LinkedTree &tree = rewriter.editor.tree;
                rewriter.places->load(tree, &positions[word]);
                word += static_cast<Index>(rewriter.places->words_of(tree).size());
            }
            try {
                per_tree.push_back(rewriter.run());
            } catch (const Refused &refused) {
                problem = {t, rewriter.rule, refused.operation, refused.refusal, refused.symbol};
                break;
            }
            columns.add(rewriter.editor.tree, places, rewriter.places ? &rewriter.places->order : nullptr);
        }
        per_rule = rewriter.rewrites;
    }
    nb::list made;
    for (const auto &[text, word] : spellings.made()) made.append(nb::make_tuple(Spellings::as_bytes(text), word));
    return nb::make_tuple(to_array(columns.symbols), to_array(columns.parents), to_array(columns.ends),
                          to_array(columns.begins), to_array(per_tree), to_array(per_rule), made, to_array(problem),
                          to_array(columns.positions));
}

}  // namespace

void bind_tree_rewriter(nb::module_ &module) {
    module.def("rewrite_trees", &rewrite_trees, "part_bounds"_a, "list_bounds"_a, "operation_bounds"_a, "name_counts"_a,
               "variable_counts"_a, "parts"_a, "lists"_a, "operations"_a, "operation_lists"_a, "text_bounds"_a, "pieces"_a,
               "tree_bounds"_a, "tree_nodes"_a, "constants"_a, "n_spellings"_a, "n_labels"_a, "oracle"_a, "symbols"_a,
               "parents"_a, "begins"_a, "positions"_a, "most_rewrites"_a, "most_steps"_a, "allow_word_changes"_a);
}

}  // namespace sapwood
