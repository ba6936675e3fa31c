#pragma once

#include <memory>

#include "bindings/give_tensor.h"
#include "contract/routes/route_span.h"

namespace rlgen::python {

// A copy of the routes for whoever takes it through DLPack; None where there are none. With the
// interpreter's lock.
inline nanobind::object give_routes(const RouteSpan& routes) {
  if (!routes.present()) return nanobind::none();
  auto copy = std::make_unique<RouteSpan>(routes);
  void* const data = copy->ids.data();
  const Shape shape = copy->view().shape;
  const DType dtype = copy->dtype;
  return nanobind::cast(give_tensor(std::move(copy), data, shape, dtype));
}

}  // namespace rlgen::python
