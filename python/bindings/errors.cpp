#include "bindings/errors.h"

#include <nanobind/stl/string.h>

#include "contract/error_type.h"
#include "generation/error_code.h"

namespace rlgen::python {
namespace nb = nanobind;

nb::object to_exception(const Status& status) {
  if (status.ok()) return nb::none();
  const std::string code = absl::StatusCodeToString(status.code());
  return nb::module_::import_("rlgen.errors")
      .attr("from_status")(code, generation::error_code(status), message_of(status),
                           error_type(status));
}

void register_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const StatusError& error) {
      const nb::object exception = to_exception(error.status());
      PyErr_SetObject(exception.type().ptr(), exception.ptr());
    }
  });
}

}  // namespace rlgen::python
