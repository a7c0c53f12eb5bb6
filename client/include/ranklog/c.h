// Ranklog in C. This is the whole interface of libranklog.so; ranklog.h wraps it for C++.
//
//   ranklog_settings* settings = ranklog_settings_from_environment();
//   ranklog_set(settings, "project", "gpt");
//   ranklog_run* run = ranklog_init(settings);
//   const ranklog_field row[] = {ranklog_number("train/loss", loss), ranklog_number("lr", lr)};
//   ranklog_log(run, row, 2, step);
//   ranklog_finish(run, 0);
//   ranklog_release(run, false);
//   ranklog_settings_free(settings);
//
// This header says how a call looks in C. What a call does is described once, in run.h, settings.h
// and value.h, at the C++ function of the same name. All of that holds here, too.
//
// Errors   No function throws, prints, or ends the process. Every function accepts a null run and
//          null settings: it then does nothing, and returns false, 0, or what is noted there.
// Memory   The program never frees what the library has allocated, and the reverse. A function gives
//          a handle, and another one takes it back. The library copies what it keeps of an argument
//          before it returns.
// Texts    Pointer and bytes, in UTF-8. A text needs no zero byte at its end, unless its size is not
//          a parameter. A null text is empty, and a null key must have no bytes. A null list of
//          values with a count above 0 is invalid.
// Threads  Any thread may call any function of a run. Settings are for one thread at a time.
// Callbacks must not throw and not leave by longjmp(). Pointers that they get are valid until they
//          return.

#ifndef RANKLOG_C_H_
#define RANKLOG_C_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#define RANKLOG_NOEXCEPT noexcept
#else
#define RANKLOG_NOEXCEPT
#endif

// Marks the functions that libranklog.so exports. All its other symbols are hidden.
#define RANKLOG_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ranklog_settings ranklog_settings;
typedef struct ranklog_run ranklog_run;
typedef struct ranklog_key ranklog_key;  // a key that is checked and stored once
typedef struct ranklog_row ranklog_row;  // a list of keys that is checked and stored once

// ---- Values ----

// The member of the union in ranklog_field, and what `size` counts.
enum ranklog_kind {
  RANKLOG_NUMBER = 0,
  RANKLOG_TEXT = 1,  // `size` bytes
  RANKLOG_FLAG = 2,
  RANKLOG_SIGNED = 3,    // in a row, from -2^53 to 2^53: the same as RANKLOG_NUMBER
  RANKLOG_UNSIGNED = 4,  // in a row, up to 2^53: the same as RANKLOG_NUMBER
  RANKLOG_NULL = 5,      // no member
  RANKLOG_LIST = 6,      // `size` items, whose keys do not count
  RANKLOG_OBJECT = 7,    // `size` items; if a key occurs twice, the last one counts

  // Media: only as values of ranklog_log_media(). See media.h. The keys of items do not count.
  RANKLOG_IMAGE = 8,   // 1 or 2 items: a text with the bytes of a PNG file, and the caption
  RANKLOG_IMAGES = 9,  // `size` items, each a RANKLOG_IMAGE or a list with its items
  RANKLOG_TABLE = 10,  // 2 items: a list of texts, the columns, and a list of rows, which are lists
  RANKLOG_HTML = 11    // `size` bytes of text
};

// A key and a value: a metric of a row, or a field of an object. Owns nothing. A value of any other
// kind is left out of a row, and makes an item refused.
typedef struct ranklog_field {
  const char* key;  // 1 to 1024 bytes
  size_t key_bytes;
  union {
    double number;
    const char* text;
    bool flag;
    int64_t signed_integer;
    uint64_t unsigned_integer;
    const struct ranklog_field* items;  // at most 32 levels deep
  };
  uint64_t kind;  // of ranklog_kind
  size_t size;    // bytes of the text; number of items; otherwise not used
} ranklog_field;

#ifndef __cplusplus
// Each returns a field that refers to its arguments. `key` and `text` end in a zero byte.
static inline ranklog_field ranklog_null(const char* key) {
  ranklog_field field = {
      .key = key, .key_bytes = key == NULL ? 0 : strlen(key), .kind = RANKLOG_NULL};
  return field;
}
static inline ranklog_field ranklog_number(const char* key, double number) {
  ranklog_field field = ranklog_null(key);
  field.kind = RANKLOG_NUMBER;
  field.number = number;
  return field;
}
static inline ranklog_field ranklog_text(const char* key, const char* text) {
  ranklog_field field = ranklog_null(key);
  field.kind = RANKLOG_TEXT;
  field.text = text == NULL ? "" : text;
  field.size = strlen(field.text);
  return field;
}
static inline ranklog_field ranklog_bytes(const char* key, const char* bytes, size_t size) {
  ranklog_field field = ranklog_null(key);
  field.kind = RANKLOG_TEXT;
  field.text = bytes;
  field.size = size;
  return field;
}
static inline ranklog_field ranklog_flag(const char* key, bool flag) {
  ranklog_field field = ranklog_null(key);
  field.kind = RANKLOG_FLAG;
  field.flag = flag;
  return field;
}
static inline ranklog_field ranklog_integer(const char* key, int64_t integer) {
  ranklog_field field = ranklog_null(key);
  field.kind = RANKLOG_SIGNED;
  field.signed_integer = integer;
  return field;
}
static inline ranklog_field ranklog_unsigned(const char* key, uint64_t integer) {
  ranklog_field field = ranklog_null(key);
  field.kind = RANKLOG_UNSIGNED;
  field.unsigned_integer = integer;
  return field;
}
static inline ranklog_field ranklog_list(const char* key, const ranklog_field* items,
                                         size_t count) {
  ranklog_field field = ranklog_null(key);
  field.kind = RANKLOG_LIST;
  field.items = items;
  field.size = count;
  return field;
}
static inline ranklog_field ranklog_object(const char* key, const ranklog_field* fields,
                                           size_t count) {
  ranklog_field field = ranklog_list(key, fields, count);
  field.kind = RANKLOG_OBJECT;
  return field;
}
#endif

// ---- Settings ----

// Settings with the defaults of ranklog::Settings, and those of the process's environment. Null
// without memory. Give them back to ranklog_settings_free().
RANKLOG_API ranklog_settings* ranklog_settings_new(void) RANKLOG_NOEXCEPT;
RANKLOG_API ranklog_settings* ranklog_settings_from_environment(void) RANKLOG_NOEXCEPT;
RANKLOG_API void ranklog_settings_free(ranklog_settings* settings) RANKLOG_NOEXCEPT;

// Sets one setting. `name` is a member of ranklog::Settings. The value is a text:
//   project, run_id, ...               the text itself
//   disabled, metadata, quiet, ...     true or false
//   rank, spool_bytes, ...             a whole decimal number
//   flush_interval, finish_timeout,    the same, in milliseconds
//   delivery_timeout
//   log_strategy                       main, node or all
//   tags, destinations, ...            one more item of the list
//   destination_settings.wandb.base_url, credentials.WANDB_API_KEY
//                                      one member of the map; its name is all after the last dot of
//                                      this form, and may have dots itself
// A null value resets the setting to its default: an empty list, no such member, ...
//   false   no such setting, or a value of another form; nothing has changed. A value that has the
//           right form, but is not usable, is found by ranklog_settings_validate().
RANKLOG_API bool ranklog_settings_set(ranklog_settings* settings, const char* name,
                                      const char* value, size_t value_bytes) RANKLOG_NOEXCEPT;

// Calls `each` with every setting that has a value, as ranklog_settings_set() takes it: a list or a
// map once for each item. `name` ends in a zero byte; `value` is never null.
typedef void (*ranklog_setting_callback)(void* user, const char* name, const char* value,
                                         size_t value_bytes);
RANKLOG_API void ranklog_settings_each(const ranklog_settings* settings,
                                       ranklog_setting_callback each, void* user) RANKLOG_NOEXCEPT;

// Calls `each` with every mistake in the settings: a sentence, as Settings::Validate() returns it.
typedef void (*ranklog_text_callback)(void* user, const char* text, size_t bytes);
RANKLOG_API void ranklog_settings_validate(const ranklog_settings* settings,
                                           ranklog_text_callback each, void* user) RANKLOG_NOEXCEPT;

// See Settings::RunIdFor(). Writes the id to `buffer`, cut to size - 1 bytes, and a zero byte. Returns
// the bytes of the whole id, which are 40; 0 without memory.
RANKLOG_API size_t ranklog_run_id_for(const char* save_dir, size_t save_dir_bytes,
                                      const char* experiment, size_t experiment_bytes, char* buffer,
                                      size_t size) RANKLOG_NOEXCEPT;

enum ranklog_severity { RANKLOG_INFO = 0, RANKLOG_WARNING = 1, RANKLOG_ERROR = 2 };

// Sends the messages for the user to `callback` instead of stderr; a null callback undoes this. See
// Settings::on_message for the thread and for what the callback may do. `free_user`, if not null, is
// called with `user` once, on any thread, when no settings and no run use the callback any more. If
// the process ends before that, it is not called.
//   false   no memory, or null settings; free_user has been called
typedef void (*ranklog_message_callback)(void* user, int severity, const char* text, size_t bytes);
RANKLOG_API bool ranklog_settings_on_message(ranklog_settings* settings,
                                             ranklog_message_callback callback, void* user,
                                             void (*free_user)(void* user)) RANKLOG_NOEXCEPT;

// ---- A run ----

// Opens a run. `settings` are copied, so they may be changed or freed afterwards; null stands for
// those of the environment. Returns null only without memory. Give the run back to
// ranklog_release(). Takes at most 10 ms.
RANKLOG_API ranklog_run* ranklog_init(const ranklog_settings* settings) RANKLOG_NOEXCEPT;

// Joins the run of another process by the text that ranklog_handle() wrote there. See
// ranklog::Attach(). `settings` as for ranklog_init(). A null or empty handle is a wrong one.
RANKLOG_API ranklog_run* ranklog_attach(const char* handle,
                                        const ranklog_settings* settings) RANKLOG_NOEXCEPT;

// Gives the run back, like the destructor of ranklog::Run: rows are in the spool, and the daemon
// takes them from there. `failed`: the program ends because of an error, so that the run's exit code
// is 1. No call of the run may be in progress on another thread, and none may follow. A forked child
// may give back its copy.
RANKLOG_API void ranklog_release(ranklog_run* run, bool failed) RANKLOG_NOEXCEPT;

// The settings as ranklog_init() resolved them: run_id, group, rank and others are filled in. They
// live as long as the run. For a null run: settings with the defaults.
RANKLOG_API const ranklog_settings* ranklog_run_settings(const ranklog_run* run) RANKLOG_NOEXCEPT;

// The `step` of a row without a step. See Run::Log().
#define RANKLOG_NO_STEP INT64_MIN

// Logs one row. See Run::Log(); its promises about waits, system calls, allocation and signal
// handlers hold here.
//   true   the row survives this process and the daemon
//   false  the row was refused; ranklog_get_stats() counts it by reason
RANKLOG_API bool ranklog_log(ranklog_run* run, const ranklog_field* metrics, size_t count,
                             int64_t step) RANKLOG_NOEXCEPT;

// Logs one row whose values may be media. See Run::Log() for rows with media: it writes files and may
// wait, so not in a signal handler.
//
//   const ranklog_field image[] = {ranklog_bytes("", png, png_bytes), ranklog_text("", "a caption")};
//   ranklog_field row[] = {ranklog_list("samples", image, 2), ranklog_number("loss", 0.3)};
//   row[0].kind = RANKLOG_IMAGE;
//   ranklog_log_media(run, row, 2, step);
RANKLOG_API bool ranklog_log_media(ranklog_run* run, const ranklog_field* metrics, size_t count,
                                   int64_t step) RANKLOG_NOEXCEPT;

// Checks and stores a key. The same key has the same handle in all runs of the process; it is never
// freed. Null: it cannot be logged; see ranklog_last_error().
RANKLOG_API const ranklog_key* ranklog_get_key(ranklog_run* run, const char* key,
                                               size_t key_bytes) RANKLOG_NOEXCEPT;

typedef struct ranklog_key_value {
  const ranklog_key* key;  // null: the value is left out of the row
  double value;
} ranklog_key_value;

// Like ranklog_log(), with keys that are checked already.
RANKLOG_API bool ranklog_log_keys(ranklog_run* run, const ranklog_key_value* values, size_t count,
                                  int64_t step) RANKLOG_NOEXCEPT;

// Checks and stores a list of keys, for any run of the process. `key_bytes` has the size of each
// key; if it is null, the keys end in a zero byte. Keys that cannot be logged keep their place in
// the list, and their values are left out. Null without memory, or without keys. Give it back to
// ranklog_row_free().
RANKLOG_API const ranklog_row* ranklog_row_new(ranklog_run* run, const char* const* keys,
                                               const size_t* key_bytes,
                                               size_t count) RANKLOG_NOEXCEPT;
RANKLOG_API void ranklog_row_free(const ranklog_row* row) RANKLOG_NOEXCEPT;

// Like ranklog_log(), with one value for each key of `row`. A null row, or another count, is invalid.
RANKLOG_API bool ranklog_log_row(ranklog_run* run, const ranklog_row* row, const double* values,
                                 size_t count, int64_t step) RANKLOG_NOEXCEPT;

// Merges fields into the config or the summary of the run. Integers stay integers.
//   false  not accepted; see ranklog_last_error(). Null fields with a count above 0 count as fields
//          for which the caller had no memory.
RANKLOG_API bool ranklog_config(ranklog_run* run, const ranklog_field* fields,
                                size_t count) RANKLOG_NOEXCEPT;
RANKLOG_API bool ranklog_summary(ranklog_run* run, const ranklog_field* fields,
                                 size_t count) RANKLOG_NOEXCEPT;

// Tells the tracker that the job is about to be preempted. If it then ends with an error, the run
// counts as preempted until it continues.
//   false  not accepted; see ranklog_last_error()
RANKLOG_API bool ranklog_mark_preempting(ranklog_run* run) RANKLOG_NOEXCEPT;

// A version of an artifact. Begin with RANKLOG_ARTIFACT_INIT, and set members after that. Texts end
// in a zero byte. Lists may be null if their count is 0.
typedef struct ranklog_artifact {
  size_t size;               // of this struct: later versions may add members
  const char* name;          // 1 to 128 letters, digits, dots, dashes and underscores
  const char* type;          // such as "model" or "dataset", without / and :
  const char* description;   // or null
  const char* const* paths;  // files, and directories, whose files get their paths in it as names
  size_t path_count;
  const char* const* references;  // URLs of content that stays where it is
  size_t reference_count;
  const char* const* aliases;  // none: "latest"
  size_t alias_count;
  const char* const* tags;
  size_t tag_count;
  const ranklog_field* metadata;
  size_t metadata_count;
  bool incremental;  // adds to the files of the latest version
} ranklog_artifact;

#define RANKLOG_ARTIFACT_INIT \
  { sizeof(ranklog_artifact), NULL, NULL, NULL, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, false }

// The upload of an artifact or of a file. See Upload.
typedef struct ranklog_upload ranklog_upload;
enum ranklog_upload_state {
  RANKLOG_STAGING = 0,  // its files are being copied: they must not change; or see SavePolicy
  RANKLOG_STAGED = 1,   // it will arrive, whatever is killed; its files may change
  RANKLOG_REFUSED = 2   // it will not arrive; see ranklog_upload_error()
};

// See Run::LogArtifact() and Run::Save(). Both return at once. To be given back by
// ranklog_upload_free(), at any time. Null without memory, or for a null run.
RANKLOG_API ranklog_upload* ranklog_log_artifact(ranklog_run* run,
                                                 const ranklog_artifact* artifact) RANKLOG_NOEXCEPT;
// See Run::LogCode(). `name` or `suffixes` may be null: the usual ones.
RANKLOG_API ranklog_upload* ranklog_log_code(ranklog_run* run, const char* root, const char* name,
                                             const char* const* suffixes,
                                             size_t suffix_count) RANKLOG_NOEXCEPT;
// `name`: the file's path among the files of the run; null: the last component of `path`.
RANKLOG_API ranklog_upload* ranklog_save(ranklog_run* run, const char* path,
                                         const char* name) RANKLOG_NOEXCEPT;
// When the file is uploaded; see SavePolicy. ranklog_save() uses RANKLOG_SAVE_NOW.
enum ranklog_save_policy { RANKLOG_SAVE_NOW = 0, RANKLOG_SAVE_END = 1, RANKLOG_SAVE_LIVE = 2 };
RANKLOG_API ranklog_upload* ranklog_save_by_policy(ranklog_run* run, const char* path,
                                                   const char* name, int policy) RANKLOG_NOEXCEPT;
// See Run::UseArtifact().
RANKLOG_API ranklog_upload* ranklog_use_artifact(ranklog_run* run,
                                                 const char* name) RANKLOG_NOEXCEPT;
// Each returns a ranklog_upload_state; RANKLOG_REFUSED for null. ranklog_upload_wait() waits while it
// is RANKLOG_STAGING, for at most `timeout_ms`.
RANKLOG_API int ranklog_upload_state(const ranklog_upload* upload) RANKLOG_NOEXCEPT;
RANKLOG_API int ranklog_upload_wait(const ranklog_upload* upload,
                                    int64_t timeout_ms) RANKLOG_NOEXCEPT;
// Writes the reason of RANKLOG_REFUSED, as ranklog_last_error() does.
RANKLOG_API size_t ranklog_upload_error(const ranklog_upload* upload, char* buffer,
                                        size_t size) RANKLOG_NOEXCEPT;
RANKLOG_API void ranklog_upload_free(ranklog_upload* upload) RANKLOG_NOEXCEPT;

enum ranklog_alert_level {
  RANKLOG_ALERT_INFO = 0,
  RANKLOG_ALERT_WARN = 1,
  RANKLOG_ALERT_ERROR = 2
};

// See AlertOptions. Begin with RANKLOG_ALERT_OPTIONS_INIT, and set members after that.
typedef struct ranklog_alert_options {
  size_t size;        // of this struct: later versions may add members
  const char* title;  // 1 to 64 characters
  size_t title_bytes;
  const char* text;
  size_t text_bytes;
  int level;        // of ranklog_alert_level
  int64_t wait_ms;  // 0 or more
} ranklog_alert_options;

#define RANKLOG_ALERT_OPTIONS_INIT \
  { sizeof(ranklog_alert_options), NULL, 0, NULL, 0, RANKLOG_ALERT_INFO, 60000 }

// Sends a message to the people who watch the run. See Run::Alert(). Null options have no title.
//   false  not accepted; see ranklog_last_error()
RANKLOG_API bool ranklog_alert(ranklog_run* run,
                               const ranklog_alert_options* options) RANKLOG_NOEXCEPT;

// See ConsoleLine.
typedef struct ranklog_console_line {
  uint64_t number;
  int64_t time_us;
  bool error;
  const char* text;
  size_t text_bytes;
} ranklog_console_line;

// See Run::CaptureConsole() and Run::LogConsole().
//   false  not accepted; see ranklog_last_error()
RANKLOG_API bool ranklog_capture_console(ranklog_run* run) RANKLOG_NOEXCEPT;
RANKLOG_API bool ranklog_log_console(ranklog_run* run, const ranklog_console_line* lines,
                                     size_t count) RANKLOG_NOEXCEPT;

// See MetricOptions. Begin with RANKLOG_METRIC_OPTIONS_INIT, and set members after that.
typedef struct ranklog_metric_options {
  size_t size;              // of this struct: later versions may add members
  const char* step_metric;  // the metric for the x axis
  size_t step_metric_bytes;
  const char* const* summary;  // `summary_count` words that end in a zero byte
  size_t summary_count;
  const char* goal;  // minimize, maximize, or null; ends in a zero byte
  bool step_sync;    // rows without the step metric get its last number
  bool hidden;
} ranklog_metric_options;

#define RANKLOG_METRIC_OPTIONS_INIT \
  { sizeof(ranklog_metric_options), NULL, 0, NULL, 0, NULL, true, false }

// Defines how the tracker shows metrics. Null options are those of RANKLOG_METRIC_OPTIONS_INIT.
//   false  not accepted; see ranklog_last_error()
RANKLOG_API bool ranklog_define_metric(ranklog_run* run, const char* name, size_t name_bytes,
                                       const ranklog_metric_options* options) RANKLOG_NOEXCEPT;

// See FlushResult.
enum ranklog_flush_result { RANKLOG_DURABLE = 0, RANKLOG_SPOOLED = 1, RANKLOG_UNDELIVERED = 2 };

// Waits until all rows logged so far are durable, for at most `timeout_ms`. Returns a value of
// ranklog_flush_result; RANKLOG_DURABLE for a null run.
RANKLOG_API int ranklog_flush(ranklog_run* run, int64_t timeout_ms) RANKLOG_NOEXCEPT;

// Ends this process's part of the run, and waits as Run::Finish() does. The run must still be given
// back. Returns a value of ranklog_flush_result; RANKLOG_DURABLE for a null run.
RANKLOG_API int ranklog_finish(ranklog_run* run, int exit_code) RANKLOG_NOEXCEPT;

// The same, with a function that may end the wait: it is called on this thread, at least each 100 ms,
// until it returns true. Then the rows are in the spool, from where the daemon takes them. For
// languages whose handlers of signals run on the thread that waits. `stops` may be null.
// ranklog_finish_until() waits for at most `timeout_ms`, and not for longer than the setting
// finish_timeout; below 0, it waits as ranklog_finish() does.
typedef bool (*ranklog_stop_wait)(void* user);
RANKLOG_API int ranklog_flush_until(ranklog_run* run, int64_t timeout_ms, ranklog_stop_wait stops,
                                    void* user) RANKLOG_NOEXCEPT;
RANKLOG_API int ranklog_finish_until(ranklog_run* run, int exit_code, int64_t timeout_ms,
                                     ranklog_stop_wait stops, void* user) RANKLOG_NOEXCEPT;

// The counters of ranklog::Stats, which describes each.
typedef struct ranklog_stats {
  size_t size;  // of this struct, set by the caller: later versions may add counters
  uint64_t rows_logged;
  uint64_t rows_durable;
  uint64_t lost_ring_full;
  uint64_t lost_invalid;
  uint64_t lost_step_behind;
  uint64_t lost_too_large;
  uint64_t lost_after_finish;
  uint64_t lost_damaged;
  uint64_t lost_values;
  uint64_t updates_pending;
  uint64_t updates_refused;
  bool connected;
} ranklog_stats;

// Fills `stats`, of which the caller has set `size`. All counters are 0 for a null run.
RANKLOG_API void ranklog_get_stats(const ranklog_run* run, ranklog_stats* stats) RANKLOG_NOEXCEPT;

// Each writes a text of the run to `buffer`, cut to size - 1 bytes, and a zero byte, like
// snprintf(). Returns the bytes of the whole text. With a size of 0, `buffer` may be null.
RANKLOG_API size_t ranklog_last_error(const ranklog_run* run, char* buffer,
                                      size_t size) RANKLOG_NOEXCEPT;
RANKLOG_API size_t ranklog_run_id(const ranklog_run* run, char* buffer,
                                  size_t size) RANKLOG_NOEXCEPT;
// See Run::stop_requested(). False for a null run.
RANKLOG_API bool ranklog_stop_requested(const ranklog_run* run) RANKLOG_NOEXCEPT;

// See Run::Url() and Run::Handle().
RANKLOG_API size_t ranklog_url(const ranklog_run* run, char* buffer, size_t size) RANKLOG_NOEXCEPT;
RANKLOG_API size_t ranklog_handle(const ranklog_run* run, char* buffer,
                                  size_t size) RANKLOG_NOEXCEPT;

// The version of libranklog.so, such as "ranklog 0.2.0". A self-contained library adds the versions
// of the source packages that it contains: "ranklog 0.2.0 with abseil 20220623.1-1+deb12u2, ...,
// zlib 1:1.2.13.dfsg-1". Never freed.
RANKLOG_API const char* ranklog_version(void) RANKLOG_NOEXCEPT;

#ifdef __cplusplus
}  // extern "C"
#else
// ranklog_settings_set() for a value that ends in a zero byte.
static inline bool ranklog_set(ranklog_settings* settings, const char* name, const char* value) {
  return ranklog_settings_set(settings, name, value, value == NULL ? 0 : strlen(value));
}
#endif

#endif  // RANKLOG_C_H_
