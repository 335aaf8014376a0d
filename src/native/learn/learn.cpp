// Kernels of learners.
#include "learn/learn.hpp"
#include "module.hpp"

namespace sapwood {

void bind_learn(nanobind::module_ &module) {
    bind_latent(module);
    bind_equation_one(module);
    bind_features(module);
    bind_learn_network(module);
    bind_layer(module);
    bind_closing(module);
}

}  // namespace sapwood
