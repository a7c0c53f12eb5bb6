#ifndef RANKLOG_VALUE_H_
#define RANKLOG_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace ranklog {

// A value of a row, of a run's config or of its summary: null, a bool, an integer, a floating-point
// number, a string, a list, or an object.
//
//   run.Config({{"lr", 3e-4}, {"model", ranklog::Value::Object({{"layers", 12}})}});
//
// Strings must be UTF-8. A null pointer, which getenv() may return, becomes an empty string.
// Integers from -2^63 to 2^64 - 1 are exact; others become the nearest double. Lists and objects may
// be nested kMaxValueDepth levels deep; the limit bounds the recursion of readers.
class Value {
 public:
  using Field = std::pair<std::string, Value>;

  Value() = default;  // null
  // Only from bool itself: a pointer would convert to bool.
  template <typename T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0>
  Value(T flag) : data_(flag) {}
  template <typename T,
            std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Value(T integer) : data_(FromInteger(integer)) {}
  template <typename T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
  Value(T number) : data_(static_cast<double>(number)) {}
  Value(const char* text) : data_(std::string(text == nullptr ? "" : text)) {}
  Value(std::string_view text) : data_(std::string(text)) {}
  Value(std::string text) : data_(std::move(text)) {}
  static Value List(std::vector<Value> values) { return Value(Data(std::move(values))); }
  static Value Object(std::vector<Field> fields) { return Value(Data(std::move(fields))); }

  // uint64_t only above int64_t.
  using Data = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<Value>,
                            std::vector<Field>, uint64_t>;
  const Data& data() const { return data_; }

 private:
  explicit Value(Data data) : data_(std::move(data)) {}
  template <typename T>
  static Data FromInteger(T integer) {
    const auto narrow = static_cast<int64_t>(integer);
    if (static_cast<T>(narrow) == integer && (std::is_signed_v<T> || narrow >= 0)) return narrow;
    const auto wide = static_cast<uint64_t>(integer);
    if (static_cast<T>(wide) == integer && integer > 0) return wide;
    return static_cast<double>(integer);
  }
  Data data_;
};

inline constexpr int kMaxValueDepth = 32;

// One metric of a row: a key and a value. Refers to the key, and to a string or a Value, which must
// live until the call returns. A Value may be a temporary in the arguments of the call:
//
//   run.Log({{"loss", loss}, {"done", true}, {"eval", Value::Object({{"bleu", 31.2}})}});
//
// Numbers and integers up to 2^53 are logged as doubles, which is the fast path. Bools, larger
// integers, null, lists and objects are logged as they are. Statistics over ranks, and the
// statistics of DefineMetric(), are only made of doubles. A null pointer becomes an empty string.
//
// A key has 1 to 1024 bytes of UTF-8. Ranklog and the trackers keep data of their own in the row
// under _step, _timestamp, _runtime and _wandb, so these keys cannot be logged.
struct Metric {
  enum class Kind : uint64_t { kNumber, kText, kFlag, kSigned, kUnsigned, kValue };

  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Metric(std::string_view key, T value) : key(key) {
    if constexpr (std::is_same_v<T, bool>) {
      kind = Kind::kFlag;
      flag = value;
    } else if constexpr (std::is_integral_v<T> && sizeof(T) >= sizeof(int64_t)) {
      SetInteger(value);
    } else {
      number = static_cast<double>(value);
    }
  }
  Metric(std::string_view key, std::string_view value) : key(key) { SetText(value); }
  Metric(std::string_view key, const char* value)
      : Metric(key, value == nullptr ? std::string_view() : std::string_view(value)) {}
  Metric(std::string_view key, const std::string& value) : Metric(key, std::string_view(value)) {}
  Metric(std::string_view key, const Value& value) : key(key) {
    if (const auto* real = std::get_if<double>(&value.data())) {
      number = *real;
    } else if (const auto* integer = std::get_if<int64_t>(&value.data())) {
      SetInteger(*integer);
    } else if (const auto* large = std::get_if<uint64_t>(&value.data())) {
      SetInteger(*large);
    } else if (const auto* boolean = std::get_if<bool>(&value.data())) {
      kind = Kind::kFlag;
      flag = *boolean;
    } else if (const auto* string = std::get_if<std::string>(&value.data())) {
      SetText(*string);
    } else {
      kind = Kind::kValue;
      this->value = &value;
    }
  }

  std::string_view key;
  union {  // the member of `kind`
    double number;
    const char* text;
    bool flag;
    int64_t signed_integer;     // outside -2^53 to 2^53
    uint64_t unsigned_integer;  // above 2^53
    const Value* value;         // null, a list or an object
  };
  Kind kind = Kind::kNumber;
  size_t text_bytes = 0;

 private:
  void SetText(std::string_view string) {
    kind = Kind::kText;
    text = string.data() == nullptr ? "" : string.data();
    text_bytes = string.size();
  }
  template <typename T>
  void SetInteger(T integer) {
    constexpr auto kExact = static_cast<T>(int64_t{1} << 53);
    if (integer <= kExact && (!std::is_signed_v<T> || integer >= static_cast<T>(-kExact))) {
      number = static_cast<double>(integer);
    } else if (std::is_signed_v<T> && integer == static_cast<T>(static_cast<int64_t>(integer))) {
      kind = Kind::kSigned;
      signed_integer = static_cast<int64_t>(integer);
    } else if (integer > 0 && integer == static_cast<T>(static_cast<uint64_t>(integer))) {
      kind = Kind::kUnsigned;
      unsigned_integer = static_cast<uint64_t>(integer);
    } else {
      number = static_cast<double>(integer);
    }
  }
};

inline constexpr size_t kMaxKeyBytes = 1024;

}  // namespace ranklog

#endif  // RANKLOG_VALUE_H_
