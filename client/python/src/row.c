// Run.log(): a dict as a row.
//
// A dict of the same keys, in the same order, as an earlier one has its keys encoded already. Keys that are literals are the
// same objects at each call. Keys that are made anew (f-strings) are compared by hash and text. Keys of a subclass of str are
// compared by text alone: their __hash__ may be code of the user, which may change the dict.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"

struct Shape {
  size_t users;  // the run, and calls that are in progress
  size_t count;
  uint64_t row;  // number of its last row
  struct {
    PyObject* key;
    Py_hash_t hash;
    PyObject* bytes;  // the key in UTF-8
    const char* text;
    size_t text_bytes;
    ranklog_field last;  // the last value, if it has a key
    PyObject* held;      // its text, or null
  } keys[];
};

static void DropShape(Shape* shape) {
  if (--shape->users > 0) return;
  for (size_t i = 0; i < shape->count; ++i) {
    Py_XDECREF(shape->keys[i].key);
    Py_XDECREF(shape->keys[i].bytes);
    Py_XDECREF(shape->keys[i].held);
  }
  free(shape);
}

void FreeShapes(RunObject* self) {
  for (int i = 0; i < kShapes; ++i) {
    if (self->shapes[i] != NULL) DropShape(self->shapes[i]);
    self->shapes[i] = NULL;
  }
}

static bool HasKeysOf(const Shape* shape, PyObject* data, size_t count) {
  if (shape->count != count) return false;
  PyObject* key;
  Py_ssize_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!PyDict_Next(data, &at, &key, NULL)) return false;
    if (key == shape->keys[i].key) continue;
    if (!PyUnicode_Check(key)) return false;
    if (PyUnicode_CheckExact(key) && PyObject_Hash(key) != shape->keys[i].hash) return false;
    if (PyUnicode_Compare(key, shape->keys[i].key) != 0) return false;
  }
  return true;
}

// Null with a Python exception.
static Shape* NewShape(PyObject* data, size_t count) {
  Shape* const shape = calloc(1, sizeof(Shape) + count * sizeof shape->keys[0]);
  if (shape == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  shape->users = 1;
  PyObject* key;
  Py_ssize_t at = 0;
  while (shape->count < count && PyDict_Next(data, &at, &key, NULL)) {
    const size_t i = shape->count;
    if (!PyUnicode_Check(key)) {
      PyErr_SetString(PyExc_TypeError, "Key values passed to `log` must be strings.");
      break;
    }
    Py_ssize_t bytes = 0;
    char* text = NULL;
    shape->keys[i].bytes = PyUnicode_AsEncodedString(key, "utf-8", "replace");
    if (shape->keys[i].bytes == NULL ||
        PyBytes_AsStringAndSize(shape->keys[i].bytes, &text, &bytes) != 0) {
      Py_CLEAR(shape->keys[i].bytes);
      break;
    }
    shape->keys[i].key = PyUnicode_FromObject(key);  // exactly a str
    shape->keys[i].text = text;
    shape->keys[i].text_bytes = (size_t)bytes;
    ++shape->count;
    if (shape->keys[i].key == NULL) break;
    shape->keys[i].hash = PyObject_Hash(shape->keys[i].key);
  }
  if (!PyErr_Occurred()) return shape;
  DropShape(shape);
  return NULL;
}

// The shape of `data`, which becomes the first one. The caller drops it. Null with a Python exception.
static Shape* ShapeOf(RunObject* self, PyObject* data, size_t count) {
  int i = 0;
  while (i < kShapes && self->shapes[i] != NULL && !HasKeysOf(self->shapes[i], data, count)) ++i;
  Shape* shape = i < kShapes ? self->shapes[i] : NULL;
  if (shape == NULL) {
    shape = NewShape(data, count);
    if (shape == NULL) return NULL;
    if (i == kShapes) DropShape(self->shapes[--i]);
  }
  memmove(&self->shapes[1], &self->shapes[0], (size_t)i * sizeof self->shapes[0]);
  self->shapes[0] = shape;
  ++shape->users;
  return shape;
}

// ---- Values that are not Python's own ----

// How a value of a foreign type becomes a scalar. Decided once for a type, by kind_of(type).
enum Kind {
  kRich = 0,     // by the Python files
  kFloat = 1,    // by __float__
  kInteger = 2,  // by __index__
  kFlag = 3,     // by __bool__
  kItem = 4,     // by item(): an array of one element. Others are rich.
  kTensor = 5    // by item(), unless it is on a GPU: item() would wait, so it is rich.
};
static PyObject* kind_of;  // a function
enum { kTypes = 32 };      // a power of 2
static struct {
  PyObject* type;  // held
  enum Kind kind;
} types[kTypes];

PyObject* SetKindOf(PyObject* module, PyObject* function) {
  (void)module;
  Py_INCREF(function);
  Py_XDECREF(kind_of);
  kind_of = function;
  Py_RETURN_NONE;
}

// -1 with an exception.
static int KindOf(PyObject* value) {
  PyObject* const type = (PyObject*)Py_TYPE(value);
  const size_t at = ((uintptr_t)type >> 5) & (kTypes - 1);
  if (types[at].type == type) return types[at].kind;
  if (kind_of == NULL) return kRich;
  PyObject* const kind = PyObject_CallFunctionObjArgs(kind_of, type, NULL);
  const long number = kind == NULL ? 0 : PyLong_AsLong(kind);
  Py_XDECREF(kind);
  if (!ClearError()) return -1;
  PyObject* const former = types[at].type;
  Py_INCREF(type);
  types[at].type = type;
  types[at].kind = number < 0 || number > kTensor ? kRich : (enum Kind)number;
  Py_XDECREF(former);
  return types[at].kind;
}

// The name as a Python text, made once.
static PyObject* Interned(const char* name, PyObject** kept) {
  if (*kept == NULL) *kept = PyUnicode_InternFromString(name);
  return *kept;
}

// False also with an exception.
static bool IsOnGpu(PyObject* tensor) {
  static PyObject* kept;
  PyObject* const name = Interned("is_cuda", &kept);
  PyObject* const is_cuda = name == NULL ? NULL : PyObject_GetAttr(tensor, name);
  Py_XDECREF(is_cuda);
  return is_cuda == Py_True;
}

// Null with an exception.
static PyObject* Item(PyObject* array) {
  static PyObject* kept;
  PyObject* const name = Interned("item", &kept);
  return name == NULL ? NULL : PyObject_CallMethodObjArgs(array, name, NULL);
}

// 1: done. 0: it is rich. -1: an exception.
static int SetForeign(PyObject* value, ranklog_field* field, PyObject** held) {
  PyObject* scalar = NULL;
  switch (KindOf(value)) {
    case kFloat:
      scalar = PyNumber_Float(value);
      break;
    case kInteger:
      scalar = PyNumber_Index(value);
      break;
    case kFlag:
      scalar = PyBool_FromLong(PyObject_IsTrue(value));
      break;
    case kTensor:
      if (IsOnGpu(value) || PyErr_Occurred()) break;
      // fall through
    case kItem:
      scalar = Item(value);
      break;
    default:
      break;
  }
  if (scalar == NULL) return ClearError() ? 0 : -1;
  const int done = SetScalar(scalar, field, held);
  Py_DECREF(scalar);
  return done;
}

// ---- The row ----

// Room for the rows of nearly all programs.
enum { kOnStack = 48 };

typedef struct {
  ranklog_field* fields;
  PyObject** held;  // by the index of the key: a text's bytes, or a foreign value
  size_t count;
} Row;

// Sets the fields from the values of Python's own types. Runs no code that could change `data`. Returns whether there are
// foreign values: their fields have no kind yet, and their `held` is the value.
static bool SetOwn(Row* row, const Shape* shape, PyObject* data) {
  bool foreign = false;
  PyObject* key;
  PyObject* value;
  Py_ssize_t at = 0;
  for (size_t i = 0; i < shape->count && PyDict_Next(data, &at, &key, &value); ++i) {
    ranklog_field* const field = &row->fields[row->count];
    if (value == Py_None) continue;
    field->key = shape->keys[i].text;
    field->key_bytes = shape->keys[i].text_bytes;
    if (!SetScalar(value, field, &row->held[row->count])) {
      Py_INCREF(value);
      row->held[row->count] = value;
      field->kind = UINT64_MAX;
      foreign = true;
    }
    ++row->count;
  }
  return foreign;
}

// 1: done. 0: a value is rich. -1: an exception.
static int SetForeigners(Row* row) {
  for (size_t i = 0; i < row->count; ++i) {
    if (row->fields[i].kind != UINT64_MAX) continue;
    PyObject* const value = row->held[i];
    const int done = SetForeign(value, &row->fields[i], &row->held[i]);
    if (done != 1) {
      row->held[i] = value;
      return done;
    }
    Py_DECREF(value);
  }
  return 1;
}

// Keeps the values for the summary, and gives the row what was held before.
static void Remember(Row* row, Shape* shape, uint64_t number) {
  size_t at = 0;
  for (size_t i = 0; i < row->count; ++i, ++at) {
    while (shape->keys[at].text != row->fields[i].key) ++at;  // None was left out
    PyObject* const former = shape->keys[at].held;
    shape->keys[at].held = row->held[i];
    row->held[i] = former;
    shape->keys[at].last = row->fields[i];
  }
  shape->row = number;
}

// A new reference; null with an exception.
static PyObject* ValueOf(const ranklog_field* field) {
  switch (field->kind) {
    case RANKLOG_NUMBER:
      return PyFloat_FromDouble(field->number);
    case RANKLOG_SIGNED:
      return PyLong_FromLongLong(field->signed_integer);
    case RANKLOG_UNSIGNED:
      return PyLong_FromUnsignedLongLong(field->unsigned_integer);
    case RANKLOG_FLAG:
      return PyBool_FromLong(field->flag);
    default:
      return PyUnicode_DecodeUTF8(field->text, (Py_ssize_t)field->size, "replace");
  }
}

PyObject* RunLast(PyObject* self, PyObject* none) {
  (void)none;
  PyObject* const last = PyDict_New();
  bool done = last != NULL;
  // From the shape that was used longest ago to the last one, so that a later value replaces an earlier one.
  for (int i = kShapes - 1; i >= 0; --i) {
    Shape* const shape = ((RunObject*)self)->shapes[i];
    if (shape == NULL) continue;
    ++shape->users;  // objects made here may run the garbage collector, and so code that logs
    for (size_t k = 0; done && k < shape->count; ++k) {
      if (shape->keys[k].last.key == NULL) continue;
      PyObject* const pair =
          Py_BuildValue("(KN)", (unsigned long long)shape->row, ValueOf(&shape->keys[k].last));
      done = pair != NULL && PyDict_SetItem(last, shape->keys[k].key, pair) == 0;
      Py_XDECREF(pair);
    }
    DropShape(shape);
  }
  if (done) return last;
  Py_XDECREF(last);
  return NULL;
}

bool StepOf(PyObject* step, int64_t* to) {
  PyObject* number = PyNumber_Index(step);
  if (number == NULL && ClearError()) {  // a whole float, or a tensor of one
    PyObject* const real = PyUnicode_Check(step) ? NULL : PyNumber_Float(step);
    const double value = real == NULL ? 0.5 : PyFloat_AsDouble(real);
    Py_XDECREF(real);
    if (!ClearError()) return false;
    if (value == floor(value)) {
      number = PyLong_FromDouble(value);
    } else {
      PyErr_Format(PyExc_TypeError, "step is %R; it must be an integer", step);
    }
  }
  if (number == NULL) return false;
  *to = PyLong_AsLongLong(number);
  Py_DECREF(number);
  if (*to == -1 && PyErr_Occurred()) return false;
  if (*to == RANKLOG_NO_STEP) ++*to;
  return true;
}

void CountRow(RunObject* self, int64_t step) {
  ++self->rows;
  self->given = step != RANKLOG_NO_STEP;
  if (!self->given) {
    ++self->step;
  } else if (step > self->step) {
    self->step = step;
  }
}

static PyObject* LogSlowly(RunObject* self, PyObject* data, PyObject* step, PyObject* commit) {
  int64_t number = RANKLOG_NO_STEP;
  if (step == Py_None) {
    return PyObject_CallMethod((PyObject*)self, "_log_slowly", "OOO", data, step, commit);
  }
  if (!StepOf(step, &number)) return NULL;
  return PyObject_CallMethod((PyObject*)self, "_log_slowly", "OLO", data, (long long)number, commit);
}

static PyObject* LogRow(RunObject* self, PyObject* data, PyObject* step) {
  int64_t number = RANKLOG_NO_STEP;
  if (step != Py_None && !StepOf(step, &number)) return NULL;
  const size_t count = (size_t)PyDict_Size(data);
  Shape* const shape = ShapeOf(self, data, count);
  if (shape == NULL) return NULL;

  ranklog_field fields[kOnStack];
  PyObject* held[kOnStack];
  Row row = {fields, held, 0};
  if (shape->count > kOnStack) {
    row.fields = malloc(shape->count * sizeof *row.fields);
    row.held = malloc(shape->count * sizeof *row.held);
  }
  int plain = 1;
  if (row.fields != NULL && row.held != NULL) {
    if (SetOwn(&row, shape, data)) plain = SetForeigners(&row);
    if (plain == 1) {
      // The library tells the user about a refused row, and counts it.
      if (ranklog_log(self->run, row.fields, row.count, number)) {
        CountRow(self, number);
        Remember(&row, shape, self->rows);
      }
    }
  }
  for (size_t i = 0; i < row.count; ++i) Py_XDECREF(row.held[i]);
  if (row.fields != fields) {
    free(row.fields);
    free(row.held);
  }
  DropShape(shape);
  if (plain < 0) return NULL;
  if (plain == 0) return LogSlowly(self, data, step, Py_None);
  Py_RETURN_NONE;
}

static bool IsNamed(PyObject* name, const char* text) {
  return PyUnicode_CompareWithASCIIString(name, text) == 0;
}

// log(data, step=None, commit=None)
PyObject* RunLog(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  RunObject* const self = (RunObject*)object;
  PyObject* given[3] = {NULL, Py_None, Py_None};
  if (count > 3) {
    PyErr_SetString(PyExc_TypeError, "log() takes data, step and commit");
    return NULL;
  }
  for (Py_ssize_t i = 0; i < count; ++i) given[i] = args[i];
  const Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* const name = PyTuple_GetItem(names, i);
    PyObject* const value = args[count + i];
    if (IsNamed(name, "step")) {
      given[1] = value;
    } else if (IsNamed(name, "commit")) {
      given[2] = value;
    } else if (IsNamed(name, "data")) {
      given[0] = value;
    } else if (!IsNamed(name, "sync")) {  // W&B takes it, and ignores it
      PyErr_Format(PyExc_TypeError, "log() got an unexpected keyword argument %R", name);
      return NULL;
    }
  }
  if (given[0] == NULL) {
    PyErr_SetString(PyExc_TypeError, "log() needs a dictionary");
    return NULL;
  }
  // A row without a step is committed by itself.
  const bool commits = given[2] == Py_None || (given[2] == Py_True && given[1] == Py_None);
  if (self->slow || !commits || !PyDict_Check(given[0])) {
    return LogSlowly(self, given[0], given[1], given[2]);
  }
  return LogRow(self, given[0], given[1]);
}
