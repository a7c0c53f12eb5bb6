// The type ranklog._native.Run: a run of libranklog. ranklog.Run is its subclass.

#include <stdlib.h>
#include <string.h>

#include "native.h"

// ---- Arguments and texts ----

// The UTF-8 of a str or bytes; null for None. Lives as long as `*held`, a new reference. False with an exception.
static bool TextOf(PyObject* value, PyObject** held, const char** text, size_t* bytes) {
  *held = NULL;
  *text = NULL;
  *bytes = 0;
  if (value == Py_None) return true;
  if (PyBytes_Check(value)) {
    Py_INCREF(value);
    *held = value;
  } else {
    *held = PyUnicode_AsEncodedString(value, "utf-8", "replace");
  }
  char* start = NULL;
  Py_ssize_t size = 0;
  if (*held == NULL || PyBytes_AsStringAndSize(*held, &start, &size) != 0) {
    Py_CLEAR(*held);
    return false;
  }
  *text = start;
  *bytes = (size_t)size;
  return true;
}

typedef size_t (*Read)(const ranklog_run* run, char* buffer, size_t size);

static PyObject* ReadText(PyObject* self, Read read) {
  const ranklog_run* const run = ((RunObject*)self)->run;
  size_t size = 512;
  for (;;) {
    char* const buffer = malloc(size);
    if (buffer == NULL) return PyErr_NoMemory();
    const size_t bytes = read(run, buffer, size);
    PyObject* text = NULL;
    if (bytes < size) text = PyUnicode_DecodeUTF8(buffer, (Py_ssize_t)bytes, "replace");
    free(buffer);
    if (bytes < size) return text;
    size = bytes + 64;  // it may change between two calls
  }
}

// Around calls that may wait, which let other threads run.
static PyThreadState* Leave(RunObject* self) {
  ++self->calls;
  return PyEval_SaveThread();
}
static void Return(RunObject* self, PyThreadState* state) {
  PyEval_RestoreThread(state);
  --self->calls;
}

// ---- Its life ----

// Run(settings): a list of (name, value), on top of those of the environment. A value of None resets the setting. What is
// no setting is in `refused_settings`.
static int RunInit(PyObject* object, PyObject* args, PyObject* names) {
  (void)names;
  RunObject* const self = (RunObject*)object;
  PyObject* list = NULL;
  if (!PyArg_ParseTuple(args, "O!:Run", &PyList_Type, &list)) return -1;
  if (self->run != NULL) {
    PyErr_SetString(PyExc_RuntimeError, "this run is open already");
    return -1;
  }
  PyObject* const refused = PyList_New(0);
  ranklog_settings* const settings = ranklog_settings_from_environment();
  bool done = refused != NULL;
  for (Py_ssize_t i = 0; done && i < PyList_Size(list); ++i) {
    PyObject* name = NULL;
    PyObject* value = NULL;
    PyObject* held[2] = {NULL, NULL};
    const char* texts[2];
    size_t bytes[2];
    done = PyArg_ParseTuple(PyList_GetItem(list, i), "OO", &name, &value) &&
           TextOf(name, &held[0], &texts[0], &bytes[0]) &&
           TextOf(value, &held[1], &texts[1], &bytes[1]);
    if (done && !ranklog_settings_set(settings, texts[0], texts[1], bytes[1])) {
      done = PyList_Append(refused, name) == 0;
    }
    Py_XDECREF(held[0]);
    Py_XDECREF(held[1]);
  }
  if (done) {
    PyThreadState* const state = Leave(self);
    self->run = ranklog_init(settings);
    Return(self, state);
    if (self->run == NULL) {
      PyErr_NoMemory();
      done = false;
    }
  }
  ranklog_settings_free(settings);
  if (done) done = PyObject_SetAttrString(object, "refused_settings", refused) == 0;
  Py_XDECREF(refused);
  return done ? 0 : -1;
}

// A run that was not finished is left to the process's end, which knows the exit code.
static void RunDealloc(PyObject* object) {
  RunObject* const self = (RunObject*)object;
  PyTypeObject* const type = Py_TYPE(object);
  FreeShapes(self);
  if (self->finished && self->run != NULL) ranklog_release(self->run, /*failed=*/false);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static PyObject* RunFinish(PyObject* self, PyObject* args) {
  int code = 0;
  long long timeout_ms = -1;
  if (!PyArg_ParseTuple(args, "i|L:finish", &code, &timeout_ms)) return NULL;
  RunObject* const run = (RunObject*)self;
  ++run->calls;
  Wait wait = BeginWait();
  const int result = ranklog_finish_until(run->run, code, timeout_ms, WaitStops, &wait);
  const bool done = EndWait(&wait);
  --run->calls;
  run->finished = true;
  return done ? PyLong_FromLong(result) : NULL;
}

// Ends the run by the exit code of the process, which exits now. Does nothing if another thread is in a call.
static PyObject* RunRelease(PyObject* self, PyObject* none) {
  (void)none;
  RunObject* const run = (RunObject*)self;
  if (run->calls == 0) {
    ranklog_run* const former = run->run;
    run->run = NULL;  // all functions take a null run
    PyThreadState* const state = Leave(run);
    ranklog_release(former, /*failed=*/false);
    Return(run, state);
  }
  Py_RETURN_NONE;
}

static PyObject* RunFlush(PyObject* self, PyObject* args) {
  long long timeout_ms = 0;
  if (!PyArg_ParseTuple(args, "L:flush", &timeout_ms)) return NULL;
  RunObject* const run = (RunObject*)self;
  ++run->calls;
  Wait wait = BeginWait();
  const int result = ranklog_flush_until(run->run, timeout_ms, WaitStops, &wait);
  const bool done = EndWait(&wait);
  --run->calls;
  return done ? PyLong_FromLong(result) : NULL;
}

// ---- Content ----

// _log(dict, step): a row of plain values and media.
static PyObject* RunLogPlain(PyObject* self, PyObject* args) {
  PyObject* dict = NULL;
  PyObject* step = NULL;
  int64_t number = RANKLOG_NO_STEP;
  if (!PyArg_ParseTuple(args, "OO:_log", &dict, &step)) return NULL;
  if (step != Py_None && !StepOf(step, &number)) return NULL;
  Arena arena = {NULL, NULL};
  size_t count = 0;
  bool logged = false;
  const ranklog_field* const fields = FieldsOf(dict, &arena, &count);
  if (fields != NULL) {
    RunObject* const run = (RunObject*)self;
    PyThreadState* const state = Leave(run);
    logged = ranklog_log_media(run->run, fields, count, number);
    Return(run, state);
    if (logged) CountRow(run, number);
  }
  FreeArena(&arena);
  return fields == NULL ? NULL : PyBool_FromLong(logged);
}

typedef bool (*Update)(ranklog_run* run, const ranklog_field* fields, size_t count);

static PyObject* UpdateBy(PyObject* self, PyObject* dict, Update update) {
  Arena arena = {NULL, NULL};
  size_t count = 0;
  bool done = false;
  const ranklog_field* const fields = FieldsOf(dict, &arena, &count);
  if (fields != NULL) done = update(((RunObject*)self)->run, fields, count);
  FreeArena(&arena);
  return fields == NULL ? NULL : PyBool_FromLong(done);
}

static PyObject* RunConfig(PyObject* self, PyObject* dict) {
  return UpdateBy(self, dict, ranklog_config);
}
static PyObject* RunSummary(PyObject* self, PyObject* dict) {
  return UpdateBy(self, dict, ranklog_summary);
}

enum { kMaxWords = 16 };

// _define_metric(name, step_metric, summary words, goal or None, step_sync, hidden)
static PyObject* RunDefineMetric(PyObject* self, PyObject* args) {
  const char* name = NULL;
  const char* step_metric = NULL;
  const char* goal = NULL;
  Py_ssize_t name_bytes = 0;
  Py_ssize_t step_bytes = 0;
  PyObject* words = NULL;
  int step_sync = 0;
  int hidden = 0;
  if (!PyArg_ParseTuple(args, "s#s#O!zpp:_define_metric", &name, &name_bytes, &step_metric,
                        &step_bytes, &PyTuple_Type, &words, &goal, &step_sync, &hidden)) {
    return NULL;
  }
  const char* summary[kMaxWords];
  size_t count = 0;
  for (Py_ssize_t i = 0; i < PyTuple_Size(words) && count < kMaxWords; ++i) {
    summary[count] = PyBytes_AsString(PyTuple_GetItem(words, i));
    if (summary[count++] == NULL) return NULL;
  }
  ranklog_metric_options options = RANKLOG_METRIC_OPTIONS_INIT;
  options.step_metric = step_metric;
  options.step_metric_bytes = (size_t)step_bytes;
  options.summary = summary;
  options.summary_count = count;
  options.goal = goal;
  options.step_sync = step_sync;
  options.hidden = hidden;
  return PyBool_FromLong(
      ranklog_define_metric(((RunObject*)self)->run, name, (size_t)name_bytes, &options));
}

// _alert(title, text, level, wait_ms)
static PyObject* RunAlert(PyObject* self, PyObject* args) {
  ranklog_alert_options options = RANKLOG_ALERT_OPTIONS_INIT;
  Py_ssize_t title_bytes = 0;
  Py_ssize_t text_bytes = 0;
  long long wait_ms = 0;
  if (!PyArg_ParseTuple(args, "s#s#iL:_alert", &options.title, &title_bytes, &options.text,
                        &text_bytes, &options.level, &wait_ms)) {
    return NULL;
  }
  options.title_bytes = (size_t)title_bytes;
  options.text_bytes = (size_t)text_bytes;
  options.wait_ms = wait_ms;
  return PyBool_FromLong(ranklog_alert(((RunObject*)self)->run, &options));
}

static PyObject* RunMarkPreempting(PyObject* self, PyObject* none) {
  (void)none;
  return PyBool_FromLong(ranklog_mark_preempting(((RunObject*)self)->run));
}

static PyObject* RunCaptureConsole(PyObject* self, PyObject* none) {
  (void)none;
  RunObject* const run = (RunObject*)self;
  PyThreadState* const state = Leave(run);
  const bool done = ranklog_capture_console(run->run);
  Return(run, state);
  return PyBool_FromLong(done);
}

// ---- Facts ----

static PyObject* RunLastError(PyObject* self, PyObject* none) {
  (void)none;
  return ReadText(self, ranklog_last_error);
}
static PyObject* RunId(PyObject* self, PyObject* none) {
  (void)none;
  return ReadText(self, ranklog_run_id);
}
static PyObject* RunUrl(PyObject* self, PyObject* none) {
  (void)none;
  return ReadText(self, ranklog_url);
}
static PyObject* RunHandle(PyObject* self, PyObject* none) {
  (void)none;
  return ReadText(self, ranklog_handle);
}

static PyObject* RunStopRequested(PyObject* self, PyObject* none) {
  (void)none;
  return PyBool_FromLong(ranklog_stop_requested(((RunObject*)self)->run));
}

static void AddSetting(void* list, const char* name, const char* value, size_t bytes) {
  PyObject* const pair =
      Py_BuildValue("(sN)", name, PyUnicode_DecodeUTF8(value, (Py_ssize_t)bytes, "replace"));
  if (pair != NULL) PyList_Append(list, pair);
  Py_XDECREF(pair);
}

static PyObject* RunSettings(PyObject* self, PyObject* none) {
  (void)none;
  PyObject* const list = PyList_New(0);
  if (list == NULL) return NULL;
  ranklog_settings_each(ranklog_run_settings(((RunObject*)self)->run), AddSetting, list);
  if (!PyErr_Occurred()) return list;
  Py_DECREF(list);
  return NULL;
}

static PyObject* RunStats(PyObject* self, PyObject* none) {
  (void)none;
  ranklog_stats stats = {.size = sizeof stats};
  ranklog_get_stats(((RunObject*)self)->run, &stats);
  return Py_BuildValue(
      "{sK sK sK sK sK sK sK sK sK sK sK sN}", "rows_logged", (unsigned long long)stats.rows_logged,
      "rows_durable", (unsigned long long)stats.rows_durable, "lost_ring_full",
      (unsigned long long)stats.lost_ring_full, "lost_invalid",
      (unsigned long long)stats.lost_invalid, "lost_step_behind",
      (unsigned long long)stats.lost_step_behind, "lost_too_large",
      (unsigned long long)stats.lost_too_large, "lost_after_finish",
      (unsigned long long)stats.lost_after_finish, "lost_damaged",
      (unsigned long long)stats.lost_damaged, "lost_values", (unsigned long long)stats.lost_values,
      "updates_pending", (unsigned long long)stats.updates_pending, "updates_refused",
      (unsigned long long)stats.updates_refused, "connected", PyBool_FromLong(stats.connected));
}

static PyObject* GetStep(PyObject* self, void* none) {
  (void)none;
  return PyLong_FromLongLong(((RunObject*)self)->step);
}
static PyObject* GetGiven(PyObject* self, void* none) {
  (void)none;
  return PyBool_FromLong(((RunObject*)self)->given);
}
static PyObject* GetRows(PyObject* self, void* none) {
  (void)none;
  return PyLong_FromUnsignedLongLong(((RunObject*)self)->rows);
}
static PyObject* GetSlow(PyObject* self, void* none) {
  (void)none;
  return PyBool_FromLong(((RunObject*)self)->slow);
}
static int SetSlow(PyObject* self, PyObject* value, void* none) {
  (void)none;
  ((RunObject*)self)->slow = value == Py_True;
  return 0;
}

bool AddRunType(PyObject* module) {
  static PyMethodDef methods[] = {
      {"log", (PyCFunction)(void (*)(void))RunLog, METH_FASTCALL | METH_KEYWORDS,
       "log(data, step=None, commit=None)\n--\n\nLogs a row. Takes less than a microsecond, and "
       "never waits."},
      {"_log", RunLogPlain, METH_VARARGS, NULL},
      {"_last", RunLast, METH_NOARGS, NULL},
      {"_config", RunConfig, METH_O, NULL},
      {"_summary", RunSummary, METH_O, NULL},
      {"_define_metric", RunDefineMetric, METH_VARARGS, NULL},
      {"_alert", RunAlert, METH_VARARGS, NULL},
      {"_mark_preempting", RunMarkPreempting, METH_NOARGS, NULL},
      {"_capture_console", RunCaptureConsole, METH_NOARGS, NULL},
      {"_flush", RunFlush, METH_VARARGS, NULL},
      {"_finish", RunFinish, METH_VARARGS, NULL},
      {"_release", RunRelease, METH_NOARGS, NULL},
      {"_stats", RunStats, METH_NOARGS, NULL},
      {"_settings", RunSettings, METH_NOARGS, NULL},
      {"_last_error", RunLastError, METH_NOARGS, NULL},
      {"_id", RunId, METH_NOARGS, NULL},
      {"_url", RunUrl, METH_NOARGS, NULL},
      {"_handle", RunHandle, METH_NOARGS, NULL},
      {"_stop_requested", RunStopRequested, METH_NOARGS, NULL},
      {"_log_artifact", RunLogArtifact, METH_VARARGS, NULL},
      {"_log_code", RunLogCode, METH_VARARGS, NULL},
      {"_save", RunSave, METH_VARARGS, NULL},
      {"_use_artifact", RunUseArtifact, METH_O, NULL},
      {NULL, NULL, 0, NULL}};
  static PyGetSetDef attributes[] = {
      {"step", GetStep, NULL, "The step of the next row without one.", NULL},
      {"_given", GetGiven, NULL, NULL, NULL},
      {"_rows", GetRows, NULL, NULL, NULL},
      {"_slow", GetSlow, SetSlow, NULL, NULL},
      {NULL, NULL, NULL, NULL, NULL}};
  PyType_Slot slots[] = {{Py_tp_init, RunInit},
                         {Py_tp_dealloc, RunDealloc},
                         {Py_tp_methods, methods},
                         {Py_tp_getset, attributes},
                         {0, NULL}};
  PyType_Spec spec = {"ranklog._native.Run", sizeof(RunObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  PyObject* const type = PyType_FromSpec(&spec);
  return type != NULL && PyModule_AddObject(module, "Run", type) == 0;
}
