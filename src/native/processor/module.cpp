// The Python module `_processor`, which runs on every processor and says which variant of the kernels this one can run.
// It uses Python's own C interface: a second copy of nanobind would be larger than all of it.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "processor/x86_64_v3.hpp"

namespace {

PyObject *has_x86_64_v3(PyObject *, PyObject *) { return PyBool_FromLong(sapwood::has_x86_64_v3()); }

PyMethodDef functions[] = {
    {"has_x86_64_v3", has_x86_64_v3, METH_NOARGS, "Whether this processor runs code for x86-64-v3 (AVX2, FMA, BMI2)."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_processor", nullptr, 0, functions, slots, nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__processor() { return PyModuleDef_Init(&definition); }
