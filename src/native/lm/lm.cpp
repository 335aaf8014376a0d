// Language models: the kernels of all files of this folder.
#include "lm/lm.hpp"
#include "core/module.hpp"

namespace sapwood {

void bind_lm(nanobind::module_ &module) {
    bind_word_table(module);
    bind_counting(module);
    bind_ngrams(module);
    bind_bigrams(module);
    bind_exchange(module);
}

}  // namespace sapwood
