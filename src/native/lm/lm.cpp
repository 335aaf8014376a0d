// Language models: the kernels of all files of this room.
#include "lm/lm.hpp"
#include "module.hpp"

namespace sapwood {

void bind_lm(nanobind::module_ &module) {
    bind_words(module);
    bind_counting(module);
    bind_ngrams(module);
    bind_bigrams(module);
    bind_exchange(module);
}

}  // namespace sapwood
