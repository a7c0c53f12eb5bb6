# The C++ example in the README is client/example.cc, to the letter: cmake -DROOT=<source tree> -P tests/readme.cmake
cmake_minimum_required(VERSION 3.25)
file(READ ${ROOT}/README.md readme)
file(READ ${ROOT}/client/example.cc example)
string(FIND "${readme}" "```cpp\n${example}```" place)
if(place EQUAL -1)
  message(FATAL_ERROR "README.md does not show client/example.cc as it is")
endif()
