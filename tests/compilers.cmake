# S39: one libranklog.so serves programs of any C++ library and of any layout of the standard types, and programs in C. Builds
# consumer.cc and client/example.c in each way against the installed files, runs them with a ranklogd, and checks with `ranklog`
# that the rows arrived.
#   cmake -DROOT=<source tree> -DBUILD=<build tree> -P tests/compilers.cmake
# A compiler that is missing is skipped on a user's machine; CI must have all of them.
cmake_minimum_required(VERSION 3.25)

set(ways  # a name, and the command
  "gcc17|g++ -std=c++17"
  "gcc20|g++ -std=c++20 -O2"
  "old_strings|g++ -std=c++17 -D_GLIBCXX_USE_CXX11_ABI=0"
  "debug_mode|g++ -std=c++17 -D_GLIBCXX_DEBUG"
  "no_exceptions|g++ -std=c++17 -O2 -fno-exceptions -fno-rtti"
  "hidden|g++ -std=c++17 -fvisibility=hidden -fvisibility-inlines-hidden"
  "clang17|clang++ -std=c++17"
  "libcxx|clang++ -std=c++20 -stdlib=libc++"
  "libcxx_no_exceptions|clang++ -std=c++17 -stdlib=libc++ -fno-exceptions -fno-rtti"
  "gcc_c11|gcc -std=c11"
  "clang_c11|clang -std=c11")
set(warnings -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)

string(RANDOM LENGTH 8 name)
set(dir $ENV{TMPDIR})
if(NOT dir)
  set(dir /tmp)
endif()
set(dir ${dir}/ranklog-compilers-${name})
set(prefix ${dir}/prefix)
file(MAKE_DIRECTORY ${dir}/run)
file(CHMOD ${dir}/run PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
# The environment must neither help the programs nor send the rows elsewhere.
foreach(name LD_LIBRARY_PATH RANKLOG_DAEMON RANKLOG_START_DAEMON WANDB_MODE RANK WORLD_SIZE)
  unset(ENV{${name}})
endforeach()
set(ENV{RANKLOG_ADDRESS} unix:${dir}/run/d.sock)
set(ENV{RANKLOG_SPOOL_DIR} ${dir}/run)
set(ENV{RANKLOG_STATE_DIR} ${dir}/state)
set(ENV{RANKLOG_DESTINATIONS} local)
set(ENV{RANKLOG_FINISH_TIMEOUT_MS} 60000)

# Runs a command, whose output must match `text`; otherwise the test fails.
function(expect text)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result TIMEOUT 60)
  if(NOT result STREQUAL 0 OR NOT output MATCHES "${text}")
    list(JOIN ARGN " " command)
    message(SEND_ERROR "${command}\n${result}, without '${text}':\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# The rows of a run, without their times.
function(read_rows run out)
  expect("" ${prefix}/bin/ranklog export ${run} --format jsonl)
  string(REGEX REPLACE "\"_(timestamp|runtime)\":[^,}]*,?" "" output "${output}")
  set(${out} "${output}" PARENT_SCOPE)
endfunction()

expect("Installing" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
file(GLOB_RECURSE library ${prefix}/libranklog.so)
cmake_path(GET library PARENT_PATH libdir)
set(absent)
foreach(way IN LISTS ways)
  string(REGEX MATCH "^(.*)\\|(.*)$" whole "${way}")
  set(name ${CMAKE_MATCH_1})
  set(command "${CMAKE_MATCH_2}")
  separate_arguments(compiler UNIX_COMMAND "${command}")
  set(program ${dir}/${name})
  file(WRITE ${dir}/trial.cc "#include <string>\n")
  list(GET compiler 0 found)
  find_program(found_${name} ${found})
  set(result 1)
  if(found_${name})
    set(language c++)
    if(name MATCHES "_c11$")
      set(language c)
      file(WRITE ${dir}/trial.cc "#include <math.h>\n")
    endif()
    execute_process(COMMAND ${compiler} -x ${language} -fsyntax-only ${dir}/trial.cc RESULT_VARIABLE result ERROR_QUIET)
  endif()
  if(NOT result EQUAL 0)
    list(APPEND absent "${command}")
    continue()
  endif()
  set(source ${ROOT}/tests/consumer.cc)
  if(language STREQUAL c)
    set(source ${ROOT}/client/example.c)
  endif()
  expect("^$" ${compiler} ${warnings} ${source} -o ${program} -I${prefix}/include -L${libdir} -lranklog -lm -Wl,-rpath,${libdir})
  set(ENV{RANKLOG_RUN_ID} ${name})
  expect("" ${program})
  if(language STREQUAL c)
    expect("999 +train/loss 0.0357" ${prefix}/bin/ranklog tail ${name})
  else()
    # All programs of a standard log the same.
    string(REGEX MATCH "c\\+\\+[0-9]+" standard "${compiler}")
    read_rows(${name} rows)
    if(NOT DEFINED rows_of_${standard})
      set(rows_of_${standard} "${rows}")
      if(NOT rows MATCHES "\"phase\":\"warm-up\"" OR NOT rows MATCHES "\"lr\":0.001")
        message(SEND_ERROR "the rows of ${name} are\n${rows}")
      endif()
    elseif(NOT rows STREQUAL rows_of_${standard})
      message(SEND_ERROR "the rows of ${name} are\n${rows}rather than\n${rows_of_${standard}}")
    endif()
  endif()
endforeach()

# Two layouts of the standard types in one process, each with inline functions of its own.
if(found_gcc17)
  file(WRITE ${dir}/two.cc "int First();\nint Second();\nint main() { return First() + Second(); }\n")
  set(First -D_GLIBCXX_USE_CXX11_ABI=0)
  set(Second -D_GLIBCXX_DEBUG)
  foreach(part First Second)
    expect("^$" g++ -std=c++17 ${warnings} ${${part}} -Dmain=${part} -fPIC -shared ${ROOT}/tests/consumer.cc -o ${dir}/lib${part}.so
           -I${prefix}/include -L${libdir} -lranklog -Wl,-rpath,${libdir})
  endforeach()
  expect("^$" g++ ${dir}/two.cc -o ${dir}/two -L${dir} -lFirst -lSecond -Wl,-rpath,${dir}:${libdir})
  set(ENV{RANKLOG_RUN_ID} two)
  expect("" ${dir}/two)
endif()

# The daemon that the first program started.
if(EXISTS ${dir}/state/lock)
  file(READ ${dir}/state/lock pid)
  string(STRIP "${pid}" pid)
  execute_process(COMMAND kill ${pid})
  execute_process(COMMAND tail --pid=${pid} -f /dev/null TIMEOUT 30)
endif()
file(REMOVE_RECURSE ${dir})
if(absent)
  list(JOIN absent ", " absent)
  if(DEFINED ENV{CI})
    message(FATAL_ERROR "absent: ${absent}")
  endif()
  message("absent: ${absent}")
endif()
