// What each room adds to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace sapwood {

void bind_trees(nanobind::module_ &module);
void bind_bracket_scanner(nanobind::module_ &module);
void bind_grammar(nanobind::module_ &module);
void bind_network(nanobind::module_ &module);
void bind_anchors(nanobind::module_ &module);
void bind_automata(nanobind::module_ &module);
void bind_lm(nanobind::module_ &module);
void bind_learn(nanobind::module_ &module);
void bind_observed(nanobind::module_ &module);
void bind_inference(nanobind::module_ &module);
void bind_induction(nanobind::module_ &module);

}  // namespace sapwood
