// Python objects as structs of views: groups of arrays that belong together are one argument.
//
// A record is a struct with a static function `fields()` that names its members; each is read from the attribute of that
// name when a kernel is called. What an attribute gives is kept until the kernel returns: it may be a property that makes a
// new array each time.
#pragma once

#include <tuple>

#include "core/views.hpp"

namespace sapwood {

template <class Record, class Value> struct Field {
    const char *name;
    Value Record::*member;
};

template <class Record, class Value> constexpr Field<Record, Value> field(const char *name, Value Record::*member) {
    return {name, member};
}

template <class T>
concept IsRecord = requires { T::fields(); };

}  // namespace sapwood

namespace nanobind::detail {

template <class Record>
    requires sapwood::IsRecord<Record>
struct type_caster<Record, int> {
    NB_TYPE_CASTER(Record, const_name("object"))

    bool from_python(handle source, uint32_t flags, cleanup_list *cleanup) noexcept {
        const auto read = [&](const auto &...each) { return (read_field(source, each, flags, cleanup) && ...); };
        return std::apply(read, Record::fields());
    }

    template <class Part, class Value>
    bool read_field(handle source, const sapwood::Field<Part, Value> &field, uint32_t flags, cleanup_list *cleanup) {
        PyObject *attribute = PyObject_GetAttrString(source.ptr(), field.name);
        if (!attribute) {
            PyErr_Clear();
            return false;
        }
        cleanup->append(attribute);
        make_caster<Value> caster;
        const bool fits = caster.from_python(attribute, flags, cleanup);
        if (fits) value.*field.member = caster.value;
        return fits;
    }
};

}  // namespace nanobind::detail
