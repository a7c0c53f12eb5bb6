# The three kinds of target in this tree, each with its warnings, its sanitizer and the include root, so
# that no folder sets a flag of its own.
#
#   ranklog_library(NAME SOURCES a.cc [HEADERS a.h] [PUBLIC libs...] [PRIVATE libs...])   static, position-independent
#   ranklog_program(NAME SOURCES main.cc [PRIVATE libs...])                                installed to bin/
#   ranklog_test(NAME SOURCES a_test.cc [PRIVATE libs...] [LABELS l...] [TIMEOUT s] [ENVIRONMENT A=b ...])

# What TSan cannot know of gRPC and all that it needs, which Debian does not instrument: memcpy, memcmp, free and the
# like are not looked at when one of these libraries calls them, for they hand memory from thread to thread by lock-free
# queues, counts and statics. Read off the library that is linked: a list by hand was incomplete, and seen to be so only
# when threads met there. Their absl locks TSan does know: tsan_abseil.cc. None of this names a function of ours: a
# suppression applies to a report with a match anywhere in its stacks, and ours are called from gRPC's, so
# `race:libgrpc.so` or `race:^grpc::` would hide our reactors.
function(ranklog_tsan_suppressions file)
  find_library(ranklog_grpc_library grpc++ REQUIRED)
  find_library(ranklog_protobuf_library protobuf REQUIRED)
  mark_as_advanced(ranklog_grpc_library ranklog_protobuf_library)
  execute_process(COMMAND ldd ${ranklog_grpc_library} ${ranklog_protobuf_library} OUTPUT_VARIABLE needed
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "lib[A-Za-z0-9_+]+\\.so" libraries "${needed}")
  # Every program needs these, and TSan knows them.
  list(FILTER libraries EXCLUDE REGEX "^lib(c|m|stdc\\+\\+|gcc_s|atomic|tsan)\\.so$")
  list(REMOVE_DUPLICATES libraries)
  list(TRANSFORM libraries PREPEND "called_from_lib:")
  list(JOIN libraries "\n" text)
  file(WRITE ${file} "${text}\n")
endfunction()

if(RANKLOG_SANITIZE STREQUAL "thread")
  add_library(ranklog_tsan OBJECT ${CMAKE_CURRENT_LIST_DIR}/tsan_abseil.cc ${CMAKE_CURRENT_LIST_DIR}/tsan_grpc.cc)
  target_compile_options(ranklog_tsan PRIVATE -Wall -Wextra $<$<BOOL:${RANKLOG_WERROR}>:-Werror>)
  ranklog_tsan_suppressions(${PROJECT_BINARY_DIR}/tsan.supp)
  set(ranklog_sanitizer_environment "TSAN_OPTIONS=suppressions=${PROJECT_BINARY_DIR}/tsan.supp history_size=4")
endif()

function(ranklog_target_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${RANKLOG_WERROR}>:-Werror>)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${target} PRIVATE -Wthread-safety -Werror=thread-safety)
  endif()
  if(RANKLOG_SANITIZE STREQUAL "address")
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined -fno-sanitize=vptr
                                             -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  elseif(RANKLOG_SANITIZE STREQUAL "thread")
    target_compile_options(${target} PRIVATE -fsanitize=thread -fno-omit-frame-pointer -g1)
    target_link_options(${target} PRIVATE -fsanitize=thread)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")  # before the libraries, and seen by them
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:ranklog_tsan>)
      target_link_options(${target} PRIVATE LINKER:--export-dynamic-symbol=_ZN*4absl*
                                                   LINKER:--export-dynamic-symbol=_ZN4grpc8internal18ServerCallbackCall*)
    endif()
  endif()
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()

function(ranklog_library target)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES} ${ARG_HEADERS})
    ranklog_target_options(${target})
    target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_PUBLIC})
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR})
  endif()
endfunction()

function(ranklog_program target)
  cmake_parse_arguments(ARG "" "" "SOURCES;PRIVATE" ${ARGN})
  add_executable(${target} ${ARG_SOURCES})
  ranklog_target_options(${target})
  target_link_libraries(${target} PRIVATE ${ARG_PRIVATE})
  install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

function(ranklog_test target)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;PRIVATE;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${target} ${ARG_SOURCES})
  ranklog_target_options(${target})
  target_compile_options(${target} PRIVATE -O0)  # the assertions need no speed, and compile twice as fast
  target_link_libraries(${target} PRIVATE ${ARG_PRIVATE} GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(RANKLOG_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 4")
  endif()
  if(NOT ARG_LABELS MATCHES "integration|interop")
    set_property(GLOBAL APPEND PROPERTY ranklog_unit_tests ${target})  # built by the target unit_tests
  endif()
  set(environment ${ARG_ENVIRONMENT} ${ranklog_sanitizer_environment})
  add_test(NAME ${target} COMMAND ${target})
  set_tests_properties(${target} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" ENVIRONMENT "${environment}")
endfunction()

# A Google Benchmark program, left out of ctest: run.sh --bench runs them.
function(ranklog_benchmark target)
  cmake_parse_arguments(ARG "" "" "SOURCES;PRIVATE" ${ARGN})
  if(NOT RANKLOG_BENCHMARKS)
    return()
  endif()
  find_package(benchmark REQUIRED)
  add_executable(${target} ${ARG_SOURCES})
  ranklog_target_options(${target})
  target_link_libraries(${target} PRIVATE ${ARG_PRIVATE} benchmark::benchmark)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/benchmarks)
endfunction()
