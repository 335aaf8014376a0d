#include "module.hpp"
#include "views.hpp"

namespace sapwood {

void bind_learn(nb::module_ &) {}

}  // namespace sapwood
