// What each folder adds to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace sapwood {

void bind_trees(nanobind::module_ &module);
void bind_bracket_scanner(nanobind::module_ &module);
void bind_bracket_writer(nanobind::module_ &module);
void bind_pattern_matcher(nanobind::module_ &module);
void bind_tree_rewriter(nanobind::module_ &module);
void bind_emissions(nanobind::module_ &module);
void bind_panels(nanobind::module_ &module);
void bind_span_scorer(nanobind::module_ &module);
void bind_anchor_nmf(nanobind::module_ &module);
void bind_simplex(nanobind::module_ &module);
void bind_automata(nanobind::module_ &module);
void bind_cp_decomposition(nanobind::module_ &module);
void bind_span_posteriors(nanobind::module_ &module);
void bind_lm(nanobind::module_ &module);
void bind_lpcfg(nanobind::module_ &module);
void bind_rule_em(nanobind::module_ &module);
void bind_spectral_features(nanobind::module_ &module);
void bind_span_scorer_training(nanobind::module_ &module);
void bind_crf_training(nanobind::module_ &module);
void bind_cell_pruner(nanobind::module_ &module);
void bind_tree_estep(nanobind::module_ &module);
void bind_forest_estep(nanobind::module_ &module);
void bind_crf(nanobind::module_ &module);
void bind_chart(nanobind::module_ &module);
void bind_induction(nanobind::module_ &module);

}  // namespace sapwood
