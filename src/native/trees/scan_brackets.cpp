// Trees in Penn brackets, from the bytes of a whole file to columns. What is malformed or unusual is left to the reader
// of `sapwood.trees.formats.brackets`, which says what is wrong and where.
#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/module.hpp"
#include "core/views.hpp"

namespace sapwood {
namespace {

// The different spellings of a column, numbered in the order in which they turn up.
class Spellings {
  public:
    int32_t number(std::string_view spelling, const char *text) {
        const auto [found, is_new] = numbers.try_emplace(spelling, static_cast<int32_t>(numbers.size()));
        if (is_new) {
            places.push_back(spelling.data() - text);
            places.push_back(spelling.data() - text + static_cast<Index>(spelling.size()));
        }
        return found->second;
    }
    // Where each stands first in the text: begin and end, one pair behind the other.
    std::vector<int64_t> places;

  private:
    std::unordered_map<std::string_view, int32_t> numbers;
};

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_token(char c) { return !is_blank(c) && c != '(' && c != ')'; }

using Columns = std::tuple<bool, Array<int32_t>, Array<int32_t>, Array<int32_t>, Array<int64_t>, Array<int64_t>, Array<int64_t>,
                           Array<int64_t>>;

// Return whether all went well and then, of the nodes in preorder (words are nodes below their tags): the number of the
// label or, as -1 - number, of the word; the parent, or -1; one behind the last node below it. Of the trees: where their nodes
// begin, and the line that each ends on. Of the labels and of the words: where they stand first.
Columns scan_brackets(Vector<const uint8_t> bytes) {
    const char *text = reinterpret_cast<const char *>(bytes.data);
    const Index size = bytes.size();
    // An open bracket's label has been read, or its word, or it has subtrees.
    enum State { NEW, LABELLED, WORD, PHRASE };
    struct Open {
        Index node;
        State state;
    };
    std::vector<int32_t> symbols, parents, ends;
    std::vector<int64_t> begins, lines;
    std::vector<Open> open;
    Spellings labels, words;
    int64_t line = 1;
    bool fine = true, line_begins = true;
    const Index largest = std::numeric_limits<int32_t>::max() - 2;

    for (Index at = 0; at < size && fine;) {
        const char c = text[at];
        if (is_blank(c)) {
            if (c == '\n') ++line, line_begins = true;
            ++at;
            continue;
        }
        const Index nodes = static_cast<Index>(symbols.size());
        if (c == '(') {
            fine = nodes < largest && (open.empty() || open.back().state != WORD);
            if (open.empty()) {
                begins.push_back(nodes);
            } else if (open.back().state == NEW) {
                // A bracket without a label.
                symbols[static_cast<std::size_t>(open.back().node)] = labels.number(std::string_view(text + at, 0), text);
            }
            if (!open.empty()) open.back().state = PHRASE;
            symbols.push_back(0);
            parents.push_back(open.empty() ? -1 : static_cast<int32_t>(open.back().node));
            ends.push_back(0);
            open.push_back({nodes, NEW});
            ++at;
        } else if (c == ')') {
            fine = !open.empty() && open.back().state >= WORD;
            if (!fine) break;
            ends[static_cast<std::size_t>(open.back().node)] = static_cast<int32_t>(nodes);
            open.pop_back();
            if (open.empty()) lines.push_back(line);
            ++at;
        } else if (open.empty()) {
            const std::string_view rest(text + at, static_cast<std::size_t>(std::min<Index>(size - at, 3)));
            fine = line_begins && (c == '#' || rest == "*x*");
            while (at < size && text[at] != '\n') ++at;
        } else {
            const Index begin = at;
            while (at < size && is_token(text[at])) ++at;
            const std::string_view token(text + begin, static_cast<std::size_t>(at - begin));
            Open &top = open.back();
            if (top.state == NEW) {
                symbols[static_cast<std::size_t>(top.node)] = labels.number(token, text);
                top.state = LABELLED;
            } else if (top.state == LABELLED && nodes < largest) {
                symbols.push_back(-1 - words.number(token, text));
                parents.push_back(static_cast<int32_t>(top.node));
                ends.push_back(static_cast<int32_t>(nodes + 1));
                top.state = WORD;
            } else {
                fine = false;
            }
        }
        line_begins = false;
    }
    fine = fine && open.empty();
    begins.push_back(static_cast<int64_t>(symbols.size()));
    return {fine,
            to_array(symbols),
            to_array(parents),
            to_array(ends),
            to_array(begins),
            to_array(lines),
            to_array(labels.places),
            to_array(words.places)};
}

}  // namespace

void bind_bracket_scanner(nb::module_ &module) { module.def("scan_brackets", &scan_brackets, "bytes"_a, unlocked()); }

}  // namespace sapwood
