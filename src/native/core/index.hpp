// The type of indices.
#pragma once

#include <cstdint>

namespace sapwood {

using Index = std::int64_t;

}  // namespace sapwood
