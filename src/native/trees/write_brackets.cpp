// Trees in Penn brackets, one per line, from columns.
#include <cstring>
#include <vector>

#include "core/module.hpp"
#include "core/views.hpp"

namespace sapwood {
namespace {

// Return the lines of trees, as bytes. Of the nodes in preorder (words are nodes below their tags): the number of the label or
// word, and one behind the last node below it; `begins` bounds each tree. The text of spelling k is `texts` from `bounds[k]` up
// to `bounds[k + 1]`; those from `n_labels` on are words.
Array<uint8_t> write_brackets(Vector<const int32_t> symbols, Vector<const int32_t> ends, Vector<const int64_t> begins,
                              Vector<const uint8_t> texts, Vector<const int64_t> bounds, Index n_labels) {
    std::vector<uint8_t> out;
    std::vector<int32_t> open;
    for (Index t = 0; t + 1 < begins.size(); ++t) {
        for (Index node = begins[t]; node < begins[t + 1]; ++node) {
            const Index symbol = symbols[node];
            const bool is_word = symbol >= n_labels;
            if (node > begins[t]) out.push_back(' ');
            if (!is_word) out.push_back('(');
            out.insert(out.end(), texts.data + bounds[symbol], texts.data + bounds[symbol + 1]);
            if (!is_word) open.push_back(ends[node]);
            while (!open.empty() && open.back() == node + 1) {
                out.push_back(')');
                open.pop_back();
            }
        }
        out.push_back('\n');
    }
    return to_array(out);
}

}  // namespace

void bind_bracket_writer(nb::module_ &module) {
    module.def("write_brackets", &write_brackets, "symbols"_a, "ends"_a, "begins"_a, "texts"_a, "bounds"_a, "n_labels"_a,
               unlocked());
}

}  // namespace sapwood
