// The Python module: every folder's kernels under their own names.
#include "core/module.hpp"

NB_MODULE(SAPWOOD_MODULE, module) {
    using namespace sapwood;
    nanobind::set_leak_warnings(false);  // what the interpreter leaves at its end is no concern of users
    bind_trees(module);
    bind_bracket_scanner(module);
    bind_bracket_writer(module);
    bind_pattern_matcher(module);
    bind_tree_rewriter(module);
    bind_emissions(module);
    bind_panels(module);
    bind_span_scorer(module);
    bind_anchor_nmf(module);
    bind_simplex(module);
    bind_automata(module);
    bind_cp_decomposition(module);
    bind_span_posteriors(module);
    bind_lm(module);
    bind_lpcfg(module);
    bind_rule_em(module);
    bind_spectral_features(module);
    bind_span_scorer_training(module);
    bind_crf_training(module);
    bind_cell_pruner(module);
    bind_tree_estep(module);
    bind_forest_estep(module);
    bind_crf(module);
    bind_chart(module);
    bind_induction(module);
}
