# S46: what the self-contained libranklog.so, or a portable program, takes from the system:
#   cmake -DREADELF=... -DLIBRARY=... -P symbols.cmake
#   cmake -DREADELF=... -DPROGRAM=... -P symbols.cmake
cmake_minimum_required(VERSION 3.25)
if(PROGRAM)
  set(most_GCC 4.2.0)
  set(LIBRARY ${PROGRAM})
  set(most_GLIBC 2.28)  # fcntl64()
  set(expected_needed ld-linux-x86-64.so.2 libc.so.6 libdl.so.2 libgcc_s.so.1 libm.so.6 libpthread.so.0)
else()
  set(most_GCC 4.2.0)
  set(most_GLIBC 2.27)  # memfd_create()
  set(expected_needed ld-linux-x86-64.so.2 libc.so.6 libdl.so.2 libgcc_s.so.1 libm.so.6 libpthread.so.0)
endif()

function(read_library option pattern out)
  execute_process(COMMAND ${READELF} -W ${option} ${LIBRARY} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "[][]" "|" text "${text}")  # brackets would join elements of a list
  string(REGEX MATCHALL "${pattern}" found "${text}")
  list(REMOVE_DUPLICATES found)
  list(SORT found)
  set(${out} "${found}" PARENT_SCOPE)
endfunction()

read_library(--dyn-syms "UND [A-Za-z0-9_]+@[A-Z]+_[0-9.]+" undefined)
list(LENGTH undefined count)
if(count LESS 100)
  message(FATAL_ERROR "found only ${count} versioned symbols in ${LIBRARY}")
endif()
foreach(symbol ${undefined})
  string(REGEX MATCH "UND (.*)@(.*)_(.*)" symbol ${symbol})
  if(NOT DEFINED most_${CMAKE_MATCH_2} OR CMAKE_MATCH_3 VERSION_GREATER most_${CMAKE_MATCH_2})
    message(SEND_ERROR "${CMAKE_MATCH_1} needs ${CMAKE_MATCH_2}_${CMAKE_MATCH_3}, which older systems lack: add it to client/portable/old_symbols.cc")
  endif()
endforeach()

# A symbol without a version would bind to any symbol of that name in the program or its libraries.
read_library(--dyn-syms "UND [^@ \n]+\n" unversioned)
list(TRANSFORM unversioned REPLACE "UND ([^\n]+)\n" "\\1")
if(unversioned)
  message(SEND_ERROR "bound to whatever exports the name: ${unversioned}")
endif()

read_library(--dynamic "\\(NEEDED\\)[^\n]+" needed)
list(TRANSFORM needed REPLACE ".*\\|(.*)\\|.*" "\\1")
if(NOT needed STREQUAL expected_needed)
  message(SEND_ERROR "needs ${needed}\nrather than ${expected_needed}")
endif()

read_library(--dynamic "TEXTREL" flags)
if(flags)
  message(SEND_ERROR "has text relocations, which hardened systems refuse")
endif()
if(PROGRAM)
  return()
endif()

# All libraries that are loaded late share about 1.5 KiB of thread-local storage.
read_library(--segments "TLS +0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+" tls)
string(REGEX REPLACE ".* " "" tls "${tls}")
math(EXPR tls "${tls}")
if(NOT tls GREATER 0 OR tls GREATER 512)
  message(SEND_ERROR "has ${tls} bytes of thread-local storage; 1 to 512 are expected")
endif()
