// What the files of this room add to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace sapwood {

void bind_simplex(nanobind::module_ &module);

}  // namespace sapwood
