# The kinds of target in this tree. Each sets the warnings, the sanitizer and the include root, so
# no folder sets flags of its own.
#
#   ranklog_library(NAME SOURCES a.cc [HEADERS a.h] [PUBLIC libs...] [PRIVATE libs...] [COLD])   static, position-independent
#     COLD      it needs no speed. Sanitizer builds do not optimize it, and so compile it twice as fast; a Release build
#               optimizes it less
#   ranklog_program(NAME SOURCES main.cc [PRIVATE libs...] [COMPONENT c])   installed to bin/, with the pages of deploy/help.
#                Default component: `programs`
#   ranklog_test(NAME SOURCES a_test.cc ... [PRIVATE libs...] [LABELS l...] [TIMEOUT s] [COST s] [ENVIRONMENT A=b ...]
#                [PATHS NAME=program_or_file ...] [PER_FILE [TOGETHER a_test.cc ...]] [COMPUTES] [SHARDS entry=4 ...]
#                [THREADS a_test.cc ...])
#     PATHS     files, and programs that the test starts (targets): NAME is a const char* with the absolute path
#     PER_FILE  one ctest entry for each source, named after it, instead of one for all; NAME_others runs the remaining tests
#     TOGETHER  sources without an entry of their own: NAME_others runs them in one process
#     SHARDS    entry=n ...: n entries instead of one, each with a part of the tests
#     THREADS   the sources of tests with threads: the ThreadSanitizer build contains only these
#     COST      approximate duration in seconds; long entries start first
#     COMPUTES  each entry keeps a core busy, so it takes two places of `ctest -j`. Other entries mostly wait
#   ranklog_rank_program(NAME)   NAME.cc, a program that a test starts as a rank
#   ranklog_benchmark(NAME SOURCES a.cc [PRIVATE libs...])   left out of ctest

# Writes TSan's suppressions for gRPC and its dependencies, which Debian does not instrument. These libraries pass memory
# between threads by lock-free queues, counters and statics. So TSan must ignore their calls of memcpy, memcmp, free and
# similar functions. The list is made from the linked library: a list made by hand was incomplete, which showed only when
# threads met there. TSan sees their absl locks (tsan_abseil.cc). No entry may match our functions. A suppression applies
# to a report if any frame of its stacks matches, and gRPC calls our code. So `race:libgrpc.so` or `race:^grpc::` would
# hide races in our reactors.
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
  # atexit_sleep_ms: how long TSan delays the end of a process with threads, to detect races with them. Our threads wake
  # every 10 ms in these tests. The default is a second, for each of a hundred ranks.
  set(ranklog_sanitizer_environment "TSAN_OPTIONS=suppressions='${PROJECT_BINARY_DIR}/tsan.supp' history_size=4 atexit_sleep_ms=100")
elseif(RANKLOG_SANITIZE STREQUAL "address")
  # How much freed memory ASan keeps from being used again. The default of 256 MB takes half of the tests' system time. With
  # 16 MB it does not see a use of memory after so much more was freed.
  set(ranklog_sanitizer_environment "ASAN_OPTIONS=quarantine_size_mb=16")
endif()

# Most of the time to compile a source goes into the headers and templates of gRPC, Abseil, nlohmann-json and GoogleTest.
# Sources that are compiled together share this cost: they take a quarter of the CPU time. Batches of forty take two thirds
# of the time of batches of ten. The largest takes 40 s and 1.8 GB of memory. Larger ones would save little, and could not
# use several cores.
set(RANKLOG_BATCH 40 CACHE STRING "With RANKLOG_UNITY, the number of sources of a folder to compile together; 0: all")

# Replaces the sources of `target` by sources that each include RANKLOG_BATCH of them. CMake's UNITY_BUILD includes them
# by absolute paths, so two clones of this tree would not share a compiler cache.
function(ranklog_batches target)
  get_target_property(all ${target} SOURCES)
  set(sources ${all})
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(LENGTH sources left)
  if(left LESS 2)
    return()
  endif()
  set_source_files_properties(${sources} PROPERTIES HEADER_FILE_ONLY ON)  # not compiled, but made where they are generated
  set(size ${RANKLOG_BATCH})
  if(size EQUAL 0)
    set(size ${left})
  endif()
  set(batch 0)
  set(batches)
  while(sources)
    list(SUBLIST sources 0 ${size} members)
    list(REMOVE_ITEM sources ${members})
    set(text)
    foreach(member ${members})
      cmake_path(ABSOLUTE_PATH member BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
      set(root ${PROJECT_SOURCE_DIR})
      cmake_path(IS_PREFIX CMAKE_CURRENT_BINARY_DIR ${member} generated)
      if(generated)
        set(root ${CMAKE_CURRENT_BINARY_DIR})  # where the batch is, too
      endif()
      cmake_path(RELATIVE_PATH member BASE_DIRECTORY ${root})
      string(APPEND text "#include \"${member}\"\n")
    endforeach()
    math(EXPR batch "${batch} + 1")
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_batch_${batch}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)  # written only where it changes
    list(APPEND batches ${file})
  endwhile()
  target_sources(${target} PRIVATE ${batches})
endfunction()

function(ranklog_target_options target)
  if(RANKLOG_UNITY)
    ranklog_batches(${target})
  endif()
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${RANKLOG_WERROR}>:-Werror>)
  if(RANKLOG_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC treats a source that another source includes as a header.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
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

# For targets that need no speed.
function(ranklog_cold target)
  if(RANKLOG_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

function(ranklog_library target)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES} ${ARG_HEADERS})
    ranklog_target_options(${target})
    if(ARG_COLD)
      ranklog_cold(${target})
    endif()
    target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_PUBLIC})
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR})
  endif()
endfunction()

function(ranklog_program target)
  cmake_parse_arguments(ARG "" "COMPONENT" "SOURCES;PRIVATE" ${ARGN})
  if(NOT ARG_COMPONENT)
    set(ARG_COMPONENT programs)
  endif()
  add_executable(${target} ${ARG_SOURCES})
  ranklog_target_options(${target})
  ranklog_cold(${target})
  target_link_libraries(${target} PRIVATE ${ARG_PRIVATE})
  install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${ARG_COMPONENT})
  # Its man page and completions are made from its --help.
  if(NOT CMAKE_CROSSCOMPILING)
    file(GLOB scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/deploy/help/*)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS "${scripts}")
    set(share ${CMAKE_CURRENT_BINARY_DIR}/${target}_share)
    add_custom_command(TARGET ${target} POST_BUILD VERBATIM
      COMMAND ${PROJECT_SOURCE_DIR}/deploy/help/pages.sh $<TARGET_FILE:${target}> ${PROJECT_VERSION} ${share})
    install(DIRECTORY ${share}/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT ${ARG_COMPONENT})
  endif()
endfunction()

# Sets `filter` to the --gtest_filter that selects the tests of `source`. It uses full names, because several sources may
# share a fixture.
function(ranklog_gtest_filter source filter)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(READ ${source} text)
  set(name "[ \n]*([A-Za-z0-9_]+)[ \n]*")
  string(REGEX MATCHALL "\nTEST(_F|_P)?\\(${name},${name}" tests "${text}")
  if(NOT tests)
    message(FATAL_ERROR "${source} has no test")
  endif()
  list(TRANSFORM tests REPLACE "\nTEST_P\\(${name},${name}" "*/\\1.\\2/*")
  list(TRANSFORM tests REPLACE "\nTEST(_F)?\\(${name},${name}" "\\2.\\3")
  list(JOIN tests ":" tests)
  set(${filter} ${tests} PARENT_SCOPE)
endfunction()

# ranklog_paths(target NAME=PROGRAM_OR_FILE...): declares NAME, a const char* with an absolute path, in each source of the target.
# The paths are in one small source. In the flags of all sources, they would prevent cache hits in another clone.
function(ranklog_paths target)
  set(header)
  set(source)
  foreach(path ${ARGN})
    string(REGEX MATCH "^([^=]*)=(.*)$" path ${path})
    set(name ${CMAKE_MATCH_1})
    set(value ${CMAKE_MATCH_2})
    if(TARGET ${value})
      add_dependencies(${target} ${value})
      set(value "$<TARGET_FILE:${value}>")
    elseif(NOT IS_ABSOLUTE ${value})
      message(FATAL_ERROR "${target}: ${name}=${value} is neither a target nor an absolute path")
    endif()
    string(APPEND header "extern const char* const ${target}_${name};\n#define ${name} ${target}_${name}\n")
    string(APPEND source "const char* const ${target}_${name} = \"${value}\";\n")
  endforeach()
  set(stem ${CMAKE_CURRENT_BINARY_DIR}/${target}_paths)
  file(CONFIGURE OUTPUT ${stem}.h CONTENT "${header}")
  file(GENERATE OUTPUT ${stem}.cc CONTENT "${source}")
  target_compile_options(${target} PRIVATE "SHELL:-include ${stem}.h")
  target_sources(${target} PRIVATE ${stem}.cc)
endfunction()

function(ranklog_test target)
  cmake_parse_arguments(ARG "PER_FILE;COMPUTES" "TIMEOUT;COST" "SOURCES;PRIVATE;LABELS;ENVIRONMENT;PATHS;SHARDS;THREADS;TOGETHER" ${ARGN})
  set(unknown ${ARG_THREADS} ${ARG_TOGETHER})
  list(REMOVE_ITEM unknown ${ARG_SOURCES})
  if(unknown)
    message(FATAL_ERROR "${target}: THREADS or TOGETHER names what is not one of its sources: ${unknown}")
  endif()
  if(RANKLOG_SANITIZE STREQUAL "thread")
    if(NOT ARG_THREADS)
      return()
    endif()
    list(FILTER ARG_SOURCES EXCLUDE REGEX "_test\\.cc$")
    list(APPEND ARG_SOURCES ${ARG_THREADS})
  endif()
  add_executable(${target} ${ARG_SOURCES})
  ranklog_target_options(${target})
  target_compile_options(${target} PRIVATE -O0)  # the assertions need no speed, and compile twice as fast
  if(RANKLOG_SANITIZE)
    # So they compile in two thirds of the time. Reports show the lines of the tested code.
    target_compile_options(${target} PRIVATE -g0)
    if(RANKLOG_SANITIZE STREQUAL "address")
      target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
    endif()
  endif()
  target_link_libraries(${target} PRIVATE ${ARG_PRIVATE} GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(ARG_PATHS)
    ranklog_paths(${target} ${ARG_PATHS})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 180)  # on a busy machine that is half as fast as ours, some take more than 60 s
  endif()
  if(RANKLOG_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 4")
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 0)
  endif()
  if(NOT ARG_LABELS MATCHES "integration|interop")
    set_property(GLOBAL APPEND PROPERTY ranklog_unit_tests ${target})  # built by the target unit_tests
  endif()
  foreach(label ${ARG_LABELS})
    if(NOT label MATCHES "^[a-z]+$")  # a misspelt THREADS would take it out of the ThreadSanitizer build unseen
      message(FATAL_ERROR "${target}: unknown word ${label} among LABELS")
    endif()
  endforeach()
  set(environment ${ARG_ENVIRONMENT} ${ranklog_sanitizer_environment})
  set(entries)
  if(ARG_PER_FILE)
    set(filters)
    foreach(source ${ARG_SOURCES})
      if(source MATCHES "_test\\.cc$" AND NOT source IN_LIST ARG_TOGETHER)
        cmake_path(GET source STEM name)
        ranklog_gtest_filter(${CMAKE_CURRENT_SOURCE_DIR}/${source} filter)
        list(APPEND filters ${filter})
        ranklog_entry(${name} ${filter})
      endif()
    endforeach()
    if(ARG_TOGETHER)
      list(JOIN filters ":" others)
      ranklog_entry(${target}_others -${others})
    endif()
  else()
    ranklog_entry(${target} *)
  endif()
  # GoogleTest reports success if it ran no test.
  set_tests_properties(${entries} PROPERTIES FAIL_REGULAR_EXPRESSION "Running 0 tests")
  if(ARG_COMPUTES)
    set_tests_properties(${entries} PROPERTIES PROCESSORS 2)
  endif()
  if(ARG_PER_FILE AND NOT ARG_TOGETHER)
    # Usually no test: only those of TYPED_TEST, and of sources that are not named *_test.cc.
    list(JOIN filters ":" filters)
    ranklog_entry(${target}_others -${filters})
  endif()
  if(ARG_SHARDS AND NOT RANKLOG_SANITIZE STREQUAL "thread")
    message(FATAL_ERROR "${target}: SHARDS names what has no entry: ${ARG_SHARDS}")
  endif()
endfunction()

# For ranklog_test: adds the entry `name`, or NAME_1 and so on as given by SHARDS, and appends them to `entries`.
macro(ranklog_entry name filter)
  set(shards 1)
  if("${ARG_SHARDS};" MATCHES "(^|;)(${name}=([0-9]+));")
    list(REMOVE_ITEM ARG_SHARDS ${CMAKE_MATCH_2})
    set(shards ${CMAKE_MATCH_3})
  endif()
  foreach(shard RANGE 1 ${shards})
    set(entry ${name})
    if(shards GREATER 1)
      set(entry ${name}_${shard})
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${entry} COMMAND ${target} --gtest_filter=${filter})
    set_tests_properties(${entry} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST} LABELS "${ARG_LABELS}"
      ENVIRONMENT "${environment};GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index}")
    list(APPEND entries ${entry})
  endforeach()
endmacro()

# A program that a test starts as a rank. It is linked like a user's program.
function(ranklog_rank_program target)
  add_executable(${target} ${target}.cc)
  ranklog_target_options(${target})
  ranklog_cold(${target})
  target_link_libraries(${target} PRIVATE ranklog::ranklog Threads::Threads)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
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
