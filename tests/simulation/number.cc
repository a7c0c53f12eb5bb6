#include "tests/simulation/number.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>

#include "tests/simulation/oracle.h"

namespace ranklog::simulation {

bool SameBits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool SameNumber(const std::string& text, double number) {
  if (std::isnan(number)) return text == "NaN";
  if (std::isinf(number)) return text == (number > 0 ? "Infinity" : "-Infinity");
  char* end = nullptr;
  const double read = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' && SameBits(read, number);
}

std::string TextOf(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", number);
  return text;
}

double NumberOf(const std::string& text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "Infinity") return kInfinity;
  if (text == "-Infinity") return -kInfinity;
  char* end = nullptr;
  const double read = std::strtod(text.c_str(), &end);
  const bool is_number = end != text.c_str() && *end == '\0';
  return is_number ? read : std::numeric_limits<double>::quiet_NaN();
}

bool SameValue(const std::string& value, const std::string& other) {
  if (value == other) return true;
  const double number = NumberOf(value);
  return !std::isnan(number) && SameNumber(other, number);
}

double AnyNumber(World& world) {
  using Limits = std::numeric_limits<double>;
  static constexpr double kOdd[] = {0.0,
                                    -0.0,
                                    Limits::quiet_NaN(),
                                    Limits::infinity(),
                                    -Limits::infinity(),
                                    Limits::denorm_min(),
                                    -Limits::denorm_min(),
                                    Limits::min(),
                                    Limits::max(),
                                    Limits::lowest(),
                                    9007199254740993.0,
                                    -1e15,
                                    0.1};
  switch (world.Below(4)) {
    case 0:
      return kOdd[world.Below(std::size(kOdd))];
    case 1:
      return static_cast<double>(static_cast<int64_t>(world.Below(2001)) - 1000);
    case 2:
      return static_cast<double>(static_cast<float>(world.Below(1 << 20)) / 1024.0F);
    default: {
      const uint64_t bits = world.Bits();
      double number;
      std::memcpy(&number, &bits, sizeof number);
      return std::isnan(number) ? Limits::quiet_NaN() : number;
    }
  }
}

std::string AnyText(World& world) {
  static constexpr const char* kPieces[] = {"a", "Z ", "\"",   "\\", "\n", "\t",
                                            "é", "漢", "🙂", "/",  "{}"};
  std::string text;
  for (uint64_t i = world.Below(8); i > 0; --i) text += kPieces[world.Below(std::size(kPieces))];
  return text;
}

namespace {

// Reads a JSON string that starts at text[*at], and unescapes it.
bool ReadString(const std::string& text, size_t* at, std::string* out) {
  if (*at >= text.size() || text[*at] != '"') return false;
  size_t end = *at + 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  if (end >= text.size()) return false;
  const nlohmann::json parsed =
      nlohmann::json::parse(text.substr(*at, end + 1 - *at), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_string()) return false;
  *out = parsed.get<std::string>();
  *at = end + 1;
  return true;
}

}  // namespace

bool ParseLine(const std::string& line, std::map<std::string, std::string>* members) {
  size_t at = 1;
  if (line.size() < 2 || line.front() != '{' || line.back() != '}') return false;
  while (at + 1 < line.size()) {
    std::string key;
    std::string value;
    if (!ReadString(line, &at, &key) || line[at] != ':') return false;
    ++at;
    if (line[at] == '"') {
      if (!ReadString(line, &at, &value)) return false;
      value.insert(0, 1, '"');
    } else {
      int depth = 0;
      while (at < line.size() && (depth > 0 || (line[at] != ',' && line[at] != '}'))) {
        depth += line[at] == '{' ? 1 : line[at] == '}' ? -1 : 0;
        value += line[at++];
      }
    }
    if (!members->emplace(key, value).second) return false;  // duplicate key
    ++at;
  }
  return true;
}

}  // namespace ranklog::simulation
