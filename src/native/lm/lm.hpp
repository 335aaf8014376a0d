// What each file of this folder adds to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace sapwood {

void bind_word_table(nanobind::module_ &module);
void bind_counting(nanobind::module_ &module);
void bind_ngrams(nanobind::module_ &module);
void bind_bigrams(nanobind::module_ &module);
void bind_exchange(nanobind::module_ &module);

}  // namespace sapwood
