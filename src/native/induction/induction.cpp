// Learning without trees: the kernels of all files of this folder.
#include "induction/induction.hpp"

namespace sapwood {

void bind_induction(nanobind::module_ &module) {
    bind_heads(module);
    bind_constituents(module);
    bind_independent(module);
    bind_best_trees(module);
}

}  // namespace sapwood
