// The Python module: every room's kernels under their own names.
#include "module.hpp"

namespace sapwood {

// Whether this processor can run the module for x86-64-v3.
static bool has_avx2() {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

}  // namespace sapwood

NB_MODULE(SAPWOOD_MODULE, module) {
    using namespace sapwood;
    nanobind::set_leak_warnings(false);  // what the interpreter leaves at its end is no concern of users
    module.def("has_avx2", &has_avx2);
    bind_trees(module);
    bind_bracket_scanner(module);
    bind_grammar(module);
    bind_network(module);
    bind_anchors(module);
    bind_automata(module);
    bind_lm(module);
    bind_learn(module);
    bind_observed(module);
    bind_inference(module);
    bind_induction(module);
}
