# S35: the units are sound, and the system's is sandboxed: what `cmake --install` puts below a prefix is looked at by systemd-analyze.
#   cmake -DBUILD=<build tree> -P tests/systemd_units.cmake
cmake_minimum_required(VERSION 3.25)
set(most 2.1)  # limit for the exposure, from 0 to 10; 9.2 without a sandbox

find_program(ANALYZE systemd-analyze)
if(NOT ANALYZE)
  if(DEFINED ENV{CI})
    message(FATAL_ERROR "absent: systemd-analyze")
  endif()
  message("absent: systemd-analyze")
  return()
endif()

string(RANDOM LENGTH 8 name)
set(dir $ENV{TMPDIR})
if(NOT dir)
  set(dir /tmp)
endif()
set(dir ${dir}/ranklog-units-${name})
set(prefix ${dir}/prefix)
file(MAKE_DIRECTORY ${prefix} ${dir}/run)
file(CREATE_LINK ${BUILD}/bin ${prefix}/bin SYMBOLIC)  # the units name the programs there

function(check)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component systemd
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  set(system ${prefix}/lib/systemd/system)
  file(COPY_FILE ${system}/ranklogd@.service ${system}/ranklogd@1000.service)
  file(COPY_FILE ${system}/ranklogd@.socket ${system}/ranklogd@1000.socket)
  set(ENV{XDG_RUNTIME_DIR} ${dir}/run)
  # It exits with 0 even for an unknown key, so its output must be empty.
  execute_process(COMMAND ${ANALYZE} verify ${system}/ranklogd@1000.service ${system}/ranklogd@1000.socket
                  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE system_result)
  execute_process(COMMAND ${ANALYZE} --user verify ${prefix}/lib/systemd/user/ranklogd.service ${prefix}/lib/systemd/user/ranklogd.socket
                  OUTPUT_VARIABLE said_of_user ERROR_VARIABLE said_of_user RESULT_VARIABLE user_result)
  if(NOT "${system_result}${said}${user_result}${said_of_user}" STREQUAL "00")
    set(failure "systemd-analyze verify: ${system_result}${said}${user_result}${said_of_user}" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${ANALYZE} security --offline=true --no-pager ${system}/ranklogd@1000.service OUTPUT_VARIABLE said)
  if(NOT said MATCHES "Overall exposure level for [^:]+: ([0-9.]+)")
    set(failure "systemd-analyze security: ${said}" PARENT_SCOPE)
  elseif(CMAKE_MATCH_1 GREATER most)
    set(failure "the exposure of ranklogd@.service is ${CMAKE_MATCH_1}, and may be ${most}:\n${said}" PARENT_SCOPE)
  endif()
endfunction()

check()
file(REMOVE_RECURSE ${dir})
if(failure)
  message(FATAL_ERROR "${failure}")
endif()
