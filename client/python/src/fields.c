#include <stdlib.h>

#include "native.h"

// Deeper values are left out by the library. This bounds our recursion.
enum { kMaxDepth = 40 };

struct Block {
  struct Block* next;
  ranklog_field fields[];
};

void FreeArena(Arena* arena) {
  while (arena->blocks != NULL) {
    struct Block* const next = arena->blocks->next;
    free(arena->blocks);
    arena->blocks = next;
  }
  Py_CLEAR(arena->held);
}

static ranklog_field* NewFields(Arena* arena, Py_ssize_t count) {
  struct Block* const block =
      calloc(1, sizeof(struct Block) + (size_t)(count > 0 ? count : 1) * sizeof(ranklog_field));
  if (block == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  block->next = arena->blocks;
  arena->blocks = block;
  return block->fields;
}

// Takes over the reference `object`, which may be null with an exception.
static bool Hold(Arena* arena, PyObject* object) {
  if (object == NULL) return false;
  if (arena->held == NULL) arena->held = PyList_New(0);
  const bool held = arena->held != NULL && PyList_Append(arena->held, object) == 0;
  Py_DECREF(object);
  return held;
}

// A new reference to the UTF-8 of `text`; what UTF-8 lacks (surrogates) becomes "?".
static PyObject* Encode(PyObject* text) {
  PyObject* const bytes = PyUnicode_AsUTF8String(text);
  if (bytes != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return bytes;
  PyErr_Clear();
  return PyUnicode_AsEncodedString(text, "utf-8", "replace");
}

static void SetInteger(PyObject* value, ranklog_field* field) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow == 0) {
    field->kind = RANKLOG_SIGNED;
    field->signed_integer = small;
    return;
  }
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(value);
    if (!PyErr_Occurred()) {
      field->kind = RANKLOG_UNSIGNED;
      field->unsigned_integer = large;
      return;
    }
    PyErr_Clear();
  }
  field->kind = RANKLOG_NUMBER;
  field->number = PyLong_AsDouble(value);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    field->number = overflow > 0 ? Py_HUGE_VAL : -Py_HUGE_VAL;
  }
}

int SetScalar(PyObject* value, ranklog_field* field, PyObject** held) {
  *held = NULL;
  field->size = 0;
  if (PyFloat_Check(value)) {
    field->kind = RANKLOG_NUMBER;
    field->number = PyFloat_AsDouble(value);
  } else if (value == Py_True || value == Py_False) {
    field->kind = RANKLOG_FLAG;
    field->flag = value == Py_True;
  } else if (PyLong_Check(value)) {
    SetInteger(value, field);
  } else if (value == Py_None) {
    field->kind = RANKLOG_NULL;
  } else if (PyUnicode_Check(value)) {
    *held = Encode(value);
    Py_ssize_t bytes = 0;
    char* text = NULL;
    if (*held == NULL || PyBytes_AsStringAndSize(*held, &text, &bytes) != 0) {
      PyErr_Clear();
      Py_CLEAR(*held);
      return 0;
    }
    field->kind = RANKLOG_TEXT;
    field->text = text;
    field->size = (size_t)bytes;
  } else {
    return 0;
  }
  return 1;
}

static bool SetBytes(PyObject* bytes, ranklog_field* field) {
  Py_ssize_t size = 0;
  char* text = NULL;
  if (PyBytes_AsStringAndSize(bytes, &text, &size) != 0) return false;
  field->kind = RANKLOG_TEXT;
  field->text = text;
  field->size = (size_t)size;
  return true;
}

static bool SetValue(PyObject* value, Arena* arena, int depth, ranklog_field* field);

static bool SetList(PyObject* list, Arena* arena, int depth, ranklog_field* field) {
  const Py_ssize_t count = PyList_Size(list);
  ranklog_field* const items = NewFields(arena, count);
  if (items == NULL) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!SetValue(PyList_GetItem(list, i), arena, depth, &items[i])) return false;
  }
  field->kind = RANKLOG_LIST;
  field->items = items;
  field->size = (size_t)count;
  return true;
}

static bool SetObject(PyObject* dict, Arena* arena, int depth, ranklog_field* field) {
  const Py_ssize_t count = PyDict_Size(dict);
  ranklog_field* const items = NewFields(arena, count);
  if (items == NULL) return false;
  PyObject* key;
  PyObject* value;
  Py_ssize_t at = 0;
  Py_ssize_t n = 0;
  while (n < count && PyDict_Next(dict, &at, &key, &value)) {
    if (!PyUnicode_Check(key)) {
      PyErr_SetString(PyExc_TypeError, "a key is not a string");
      return false;
    }
    PyObject* const name = Encode(key);
    if (!Hold(arena, name)) return false;
    ranklog_field* const item = &items[n++];
    char* text = NULL;
    Py_ssize_t bytes = 0;
    if (PyBytes_AsStringAndSize(name, &text, &bytes) != 0) return false;
    item->key = text;
    item->key_bytes = (size_t)bytes;
    if (!SetValue(value, arena, depth, item)) return false;
  }
  field->kind = RANKLOG_OBJECT;
  field->items = items;
  field->size = (size_t)n;
  return true;
}

// A tuple (kind, value) is a medium: the value's field, with that kind of enum ranklog_kind.
static bool SetMedium(PyObject* tuple, Arena* arena, int depth, ranklog_field* field) {
  if (PyTuple_Size(tuple) != 2) {
    PyErr_SetString(PyExc_TypeError, "a medium is a tuple (kind, value)");
    return false;
  }
  const long kind = PyLong_AsLong(PyTuple_GetItem(tuple, 0));
  if (PyErr_Occurred() || !SetValue(PyTuple_GetItem(tuple, 1), arena, depth, field)) return false;
  field->kind = (uint64_t)kind;
  return true;
}

static bool SetValue(PyObject* value, Arena* arena, int depth, ranklog_field* field) {
  if (depth > kMaxDepth) {
    field->kind = RANKLOG_NULL;
    return true;
  }
  PyObject* held = NULL;
  if (SetScalar(value, field, &held)) return held == NULL || Hold(arena, held);
  if (PyList_Check(value)) return SetList(value, arena, depth + 1, field);
  if (PyDict_Check(value)) return SetObject(value, arena, depth + 1, field);
  if (PyTuple_Check(value)) return SetMedium(value, arena, depth + 1, field);
  if (PyBytes_Check(value)) return SetBytes(value, field);
  PyErr_Format(PyExc_TypeError, "a value of type %R is not plain", (PyObject*)Py_TYPE(value));
  return false;
}

const ranklog_field* FieldsOf(PyObject* dict, Arena* arena, size_t* count) {
  ranklog_field all;
  if (!PyDict_Check(dict)) {
    PyErr_SetString(PyExc_TypeError, "not a dict");
    return NULL;
  }
  if (!SetObject(dict, arena, 0, &all)) return NULL;
  *count = all.size;
  return all.items;
}
