#include "module.hpp"
#include "views.hpp"

namespace sapwood {

void bind_observed(nb::module_ &) {}

}  // namespace sapwood
