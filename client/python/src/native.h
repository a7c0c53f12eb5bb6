// The extension module ranklog._native: libranklog for Python, by the limited API.
//
// It knows no class of the package. What needs judgement (units of values, media, commit rules) is in the Python files, which
// call this module with plain values: None, bool, int, float, str, bytes, list, dict, and tuples for media (see fields.c).
//
// Functions that may wait release the GIL. Logging a row does not, because it never waits.

#ifndef CLIENT_PYTHON_SRC_NATIVE_H_
#define CLIENT_PYTHON_SRC_NATIVE_H_

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000  // CPython 3.9 and later, by one binary
#include <Python.h>
#include <ranklog/c.h>
#include <stdbool.h>
#include <stdint.h>

// The limited API names it from 3.10 on. 3.7 to 3.9 have the same calling convention.
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

// ---- module.c ----

// A wait of the library, during which other threads run, and handlers of signals on this one. Between the two calls, the
// library may ask WaitStops(). EndWait() is false with an exception: a handler has raised it, such as KeyboardInterrupt.
typedef struct {
  PyThreadState* thread;
  bool raised;
} Wait;
Wait BeginWait(void);
bool WaitStops(void* wait);
bool EndWait(Wait* wait);

// Clears an exception that a value's own code has raised. False: it must go on, because it is Ctrl-C or exit().
bool ClearError(void);

// ---- fields.c: Python values as fields ----

// Memory of fields: blocks, and the objects whose bytes they refer to.
typedef struct {
  struct Block* blocks;
  PyObject* held;  // a list, made at first use
} Arena;
void FreeArena(Arena* arena);

// Sets the value of `field` from None, a bool, int, float or str, or a subclass of these. A text is kept in `*held` (a new
// reference), which is otherwise null.
//   1   done
//   0   another type, or a text that cannot be encoded
int SetScalar(PyObject* value, ranklog_field* field, PyObject** held);

// Makes fields from a dict. Null with a Python exception: no memory, or a value of a type that is not plain.
const ranklog_field* FieldsOf(PyObject* dict, Arena* arena, size_t* count);

// ---- row.c: the hot path ----

typedef struct Shape Shape;
enum { kShapes = 16 };  // lists of keys that a run recognizes: training, validation, and some more

typedef struct {
  PyObject_HEAD ranklog_run* run;
  int64_t step;            // of the next row without a step, as this process counts
  bool given;              // the last row gave its step, which is still open
  bool slow;               // each row goes to self._log_slowly()
  bool finished;           // finish() was called
  int calls;               // in progress, of those that may wait
  uint64_t rows;           // logged by this object
  Shape* shapes[kShapes];  // the last used one first; null at the end
} RunObject;

void FreeShapes(RunObject* self);
PyObject* RunLog(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
// _last(): {key: (number of the row, value)} of the last values that shapes have.
PyObject* RunLast(PyObject* self, PyObject* none);
// set_kind_of(function): it returns how values of a type are converted, see row.c.
PyObject* SetKindOf(PyObject* module, PyObject* function);
// Follows the steps after a row that the library has taken.
void CountRow(RunObject* self, int64_t step);
// False with a Python exception: not an integer.
bool StepOf(PyObject* step, int64_t* to);

// ---- run.c, upload.c ----

bool AddRunType(PyObject* module);
bool AddUploadType(PyObject* module);
// Takes over `upload`.
PyObject* NewUpload(ranklog_upload* upload);
PyObject* RunLogArtifact(PyObject* self, PyObject* args);
PyObject* RunLogCode(PyObject* self, PyObject* args);
PyObject* RunSave(PyObject* self, PyObject* args);
PyObject* RunUseArtifact(PyObject* self, PyObject* bytes);

#endif  // CLIENT_PYTHON_SRC_NATIVE_H_
