// Numbers to the bit, and lines as text: what JSON libraries would round off.

#ifndef TESTS_SIMULATION_NUMBER_H_
#define TESTS_SIMULATION_NUMBER_H_

#include <string>

#include "tests/simulation/world.h"

namespace ranklog::simulation {

bool SameBits(double a, double b);
// Whether `text` stands for just this number in a line: NaN, Infinity and -Infinity as bare words,
// -0 with its sign.
bool SameNumber(const std::string& text, double number);
// The same with a text on both sides: `value` as it stands in a line, or in a summary.
bool SameValue(const std::string& value, const std::string& other);
// A number as it would stand in a line.
std::string TextOf(double number);
// A number as it may stand in a line; NaN if it is none.
double NumberOf(const std::string& text);

// Any double: small and large ones, NaN, infinities, denormals, -0.
double AnyNumber(World& world);
// A text with quotes, controls, and letters of more than one byte.
std::string AnyText(World& world);

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_NUMBER_H_
