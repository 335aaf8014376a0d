#include "module.hpp"
#include "views.hpp"

namespace sapwood {

void bind_inference(nb::module_ &) {}

}  // namespace sapwood
