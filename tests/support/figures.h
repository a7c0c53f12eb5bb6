// Figures that a trial measures, each printed with its goal. If RANKLOG_FIGURES names a file, each
// figure is also appended to it as a line of JSON. tests/soak.py reads and judges this file. A
// figure that depends on the machine must not fail a test.

#ifndef TESTS_SUPPORT_FIGURES_H_
#define TESTS_SUPPORT_FIGURES_H_

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace ranklog::testing {

// `kind` of the goal: at_most, at_least, or empty. Names and units must need no escapes in JSON.
inline void ReportFigure(const std::string& name, double value, const std::string& unit,
                         const std::string& kind, double goal) {
  std::printf("figure: %s: %.6g %s", name.c_str(), value, unit.c_str());
  if (!kind.empty()) std::printf(" (%s %.6g)", kind == "at_most" ? "at most" : "at least", goal);
  std::printf("\n");
  const char* const path = std::getenv("RANKLOG_FIGURES");
  std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "a");
  if (file == nullptr) return;
  std::fprintf(file, R"({"name": "%s", "unit": "%s")", name.c_str(), unit.c_str());
  // JSON has no NaN and no infinities. Such values meet no goal.
  if (std::isfinite(value)) std::fprintf(file, R"(, "value": %.9g)", value);
  if (!kind.empty()) std::fprintf(file, R"(, "%s": %.9g)", kind.c_str(), goal);
  std::fprintf(file, "}\n");
  std::fclose(file);
}

inline void Report(const std::string& name, double value, const std::string& unit) {
  ReportFigure(name, value, unit, "", 0);
}
inline void ReportAtMost(const std::string& name, double value, const std::string& unit,
                         double goal) {
  ReportFigure(name, value, unit, "at_most", goal);
}
inline void ReportAtLeast(const std::string& name, double value, const std::string& unit,
                          double goal) {
  ReportFigure(name, value, unit, "at_least", goal);
}

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_FIGURES_H_
