// What the learners' files add to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace sapwood {

void bind_latent(nanobind::module_ &module);
void bind_equation_one(nanobind::module_ &module);
void bind_features(nanobind::module_ &module);
void bind_learn_network(nanobind::module_ &module);
void bind_layer(nanobind::module_ &module);
void bind_closing(nanobind::module_ &module);

}  // namespace sapwood
