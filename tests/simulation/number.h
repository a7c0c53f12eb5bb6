// Numbers compared to the bit, and lines as text. JSON libraries would round numbers.

#ifndef TESTS_SIMULATION_NUMBER_H_
#define TESTS_SIMULATION_NUMBER_H_

#include <string>

#include "tests/simulation/world.h"

namespace ranklog::simulation {

bool SameBits(double a, double b);
// Whether `text` in a line is exactly this number: NaN, Infinity and -Infinity as bare words, -0
// with its sign.
bool SameNumber(const std::string& text, double number);
// The same for two texts: `value` as written in a line or in a summary.
bool SameValue(const std::string& value, const std::string& other);
// Formats a number as in a line.
std::string TextOf(double number);
// Parses a number of a line. Returns NaN if it is not a number.
double NumberOf(const std::string& text);

// Returns any double: small, large, NaN, infinite, denormal, -0.
double AnyNumber(World& world);
// Returns a text with quotes, control characters, and letters of several bytes.
std::string AnyText(World& world);

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_NUMBER_H_
