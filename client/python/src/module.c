#include "native.h"

Wait BeginWait(void) {
  const Wait wait = {PyEval_SaveThread(), false};
  return wait;
}

bool WaitStops(void* user) {
  Wait* const wait = user;
  if (wait->raised) return true;
  PyEval_RestoreThread(wait->thread);
  wait->raised = PyErr_CheckSignals() != 0;
  wait->thread = PyEval_SaveThread();
  return wait->raised;
}

bool EndWait(Wait* wait) {
  PyEval_RestoreThread(wait->thread);
  return !wait->raised;
}

bool ClearError(void) {
  if (PyErr_Occurred() != NULL && !PyErr_ExceptionMatches(PyExc_Exception)) return false;
  PyErr_Clear();
  return true;
}

static PyObject* Version(PyObject* module, PyObject* none) {
  (void)module;
  (void)none;
  return PyUnicode_FromString(ranklog_version());
}

static PyObject* RunIdFor(PyObject* module, PyObject* args) {
  (void)module;
  const char* texts[2];
  Py_ssize_t bytes[2];
  if (!PyArg_ParseTuple(args, "s#s#:run_id_for", &texts[0], &bytes[0], &texts[1], &bytes[1]))
    return NULL;
  char id[64];
  ranklog_run_id_for(texts[0], (size_t)bytes[0], texts[1], (size_t)bytes[1], id, sizeof id);
  return PyUnicode_FromString(id);
}

PyMODINIT_FUNC PyInit__native(void) {
  static PyMethodDef functions[] = {{"version", Version, METH_NOARGS, NULL},
                                    {"run_id_for", RunIdFor, METH_VARARGS, NULL},
                                    {"set_kind_of", SetKindOf, METH_O, NULL},
                                    {NULL, NULL, 0, NULL}};
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "ranklog._native", .m_size = -1,
                                   .m_methods = functions};
  PyObject* const module = PyModule_Create(&definition);
  if (module != NULL && AddRunType(module) && AddUploadType(module)) return module;
  Py_XDECREF(module);
  return NULL;
}
