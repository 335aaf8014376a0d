#include "module.hpp"
#include "views.hpp"

namespace sapwood {

void bind_lm(nb::module_ &) {}

}  // namespace sapwood
