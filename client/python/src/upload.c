// Artifacts and files of a run, and the type ranklog._native.Upload: the handle of such an upload.

#include <stdlib.h>

#include "native.h"

typedef struct {
  PyObject_HEAD ranklog_upload* upload;
} UploadObject;

static PyObject* upload_type;

// ---- Lists of texts ----

typedef struct {
  const char** texts;
  size_t count;
} Texts;

// From a list of bytes, which must live as long. False with an exception.
static bool TextsOf(PyObject* list, Texts* to) {
  if (!PyList_Check(list)) {
    PyErr_SetString(PyExc_TypeError, "not a list of bytes");
    return false;
  }
  const Py_ssize_t count = PyList_Size(list);
  to->texts = calloc((size_t)count + 1, sizeof *to->texts);
  if (to->texts == NULL) {
    PyErr_NoMemory();
    return false;
  }
  for (; to->count < (size_t)count; ++to->count) {
    to->texts[to->count] = PyBytes_AsString(PyList_GetItem(list, (Py_ssize_t)to->count));
    if (to->texts[to->count] == NULL) return false;
  }
  return true;
}

// ---- Calls of a run ----

// _log_artifact(name, type, description, paths, references, aliases, tags, metadata dict, incremental)
PyObject* RunLogArtifact(PyObject* self, PyObject* args) {
  ranklog_artifact artifact = RANKLOG_ARTIFACT_INIT;
  PyObject* lists[4];
  PyObject* metadata = NULL;
  int incremental = 0;
  if (!PyArg_ParseTuple(args, "sszOOOOOp:_log_artifact", &artifact.name, &artifact.type,
                        &artifact.description, &lists[0], &lists[1], &lists[2], &lists[3],
                        &metadata, &incremental)) {
    return NULL;
  }
  Texts texts[4] = {{NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}};
  bool done = true;
  for (int i = 0; done && i < 4; ++i) done = TextsOf(lists[i], &texts[i]);
  Arena arena = {NULL, NULL};
  PyObject* result = NULL;
  if (done) {
    artifact.metadata = FieldsOf(metadata, &arena, &artifact.metadata_count);
    artifact.paths = texts[0].texts;
    artifact.path_count = texts[0].count;
    artifact.references = texts[1].texts;
    artifact.reference_count = texts[1].count;
    artifact.aliases = texts[2].texts;
    artifact.alias_count = texts[2].count;
    artifact.tags = texts[3].texts;
    artifact.tag_count = texts[3].count;
    artifact.incremental = incremental;
    if (artifact.metadata != NULL)
      result = NewUpload(ranklog_log_artifact(((RunObject*)self)->run, &artifact));
  }
  FreeArena(&arena);
  for (int i = 0; i < 4; ++i) free(texts[i].texts);
  return result;
}

// _log_code(root, name or None, suffixes)
PyObject* RunLogCode(PyObject* self, PyObject* args) {
  const char* root = NULL;
  const char* name = NULL;
  PyObject* list = NULL;
  if (!PyArg_ParseTuple(args, "yzO:_log_code", &root, &name, &list)) return NULL;
  Texts suffixes = {NULL, 0};
  PyObject* result = NULL;
  if (TextsOf(list, &suffixes)) {
    result = NewUpload(
        ranklog_log_code(((RunObject*)self)->run, root, name, suffixes.texts, suffixes.count));
  }
  free(suffixes.texts);
  return result;
}

// _save(path, name, policy)
PyObject* RunSave(PyObject* self, PyObject* args) {
  const char* path = NULL;
  const char* name = NULL;
  int policy = RANKLOG_SAVE_NOW;
  if (!PyArg_ParseTuple(args, "yyi:_save", &path, &name, &policy)) return NULL;
  return NewUpload(ranklog_save_by_policy(((RunObject*)self)->run, path, name, policy));
}

PyObject* RunUseArtifact(PyObject* self, PyObject* bytes) {
  const char* const name = PyBytes_AsString(bytes);
  return name == NULL ? NULL : NewUpload(ranklog_use_artifact(((RunObject*)self)->run, name));
}

// ---- The type ----

PyObject* NewUpload(ranklog_upload* upload) {
  allocfunc allocate = (allocfunc)PyType_GetSlot((PyTypeObject*)upload_type, Py_tp_alloc);
  PyObject* const object = allocate((PyTypeObject*)upload_type, 0);
  if (object == NULL) {
    ranklog_upload_free(upload);
  } else {
    ((UploadObject*)object)->upload = upload;
  }
  return object;
}

static void UploadDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  ranklog_upload_free(((UploadObject*)object)->upload);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static PyObject* UploadState(PyObject* self, PyObject* none) {
  (void)none;
  return PyLong_FromLong(ranklog_upload_state(((UploadObject*)self)->upload));
}

enum { kSliceMs = 50 };  // how late a handler of a signal may run

static PyObject* UploadWait(PyObject* self, PyObject* args) {
  long long timeout_ms = 0;
  if (!PyArg_ParseTuple(args, "L:wait", &timeout_ms)) return NULL;
  const ranklog_upload* const upload = ((UploadObject*)self)->upload;
  Wait wait = BeginWait();
  int state = RANKLOG_STAGING;
  do {
    const long long slice_ms = timeout_ms < kSliceMs ? timeout_ms : kSliceMs;
    state = ranklog_upload_wait(upload, slice_ms);
    timeout_ms -= slice_ms;
  } while (state == RANKLOG_STAGING && timeout_ms > 0 && !WaitStops(&wait));
  return EndWait(&wait) ? PyLong_FromLong(state) : NULL;
}

static PyObject* UploadError(PyObject* self, PyObject* none) {
  (void)none;
  char text[1024];
  size_t bytes = ranklog_upload_error(((UploadObject*)self)->upload, text, sizeof text);
  if (bytes > sizeof text - 1) bytes = sizeof text - 1;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "replace");
}

bool AddUploadType(PyObject* module) {
  static PyMethodDef methods[] = {{"state", UploadState, METH_NOARGS, NULL},
                                  {"wait", UploadWait, METH_VARARGS, NULL},
                                  {"error", UploadError, METH_NOARGS, NULL},
                                  {NULL, NULL, 0, NULL}};
  PyType_Slot slots[] = {{Py_tp_dealloc, UploadDealloc}, {Py_tp_methods, methods}, {0, NULL}};
  PyType_Spec spec = {"ranklog._native.Upload", sizeof(UploadObject), 0, Py_TPFLAGS_DEFAULT, slots};
  upload_type = PyType_FromSpec(&spec);
  if (upload_type == NULL) return false;
  Py_INCREF(upload_type);
  return PyModule_AddObject(module, "Upload", upload_type) == 0;
}
