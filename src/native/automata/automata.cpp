#include "module.hpp"
#include "views.hpp"

namespace sapwood {

void bind_automata(nb::module_ &) {}

}  // namespace sapwood
