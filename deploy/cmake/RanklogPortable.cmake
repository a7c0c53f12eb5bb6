# What a self-contained libranklog.so (RANKLOG_PORTABLE) holds:
#   ranklog_portable_libraries   the static archives of gRPC and of all that it needs, and the old names of parts of glibc
#   RANKLOG_STATIC_PARTS         " with PACKAGE VERSION, ...": their source packages
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" OR RANKLOG_SANITIZE)
  message(FATAL_ERROR "RANKLOG_PORTABLE is for x86-64, and without RANKLOG_SANITIZE")
endif()

# libstdc++ stays shared: strings cross our API, and a program may have an operator new of its own.
set(debian_archives grpc++_unsecure grpc_unsecure gpr upb cares address_sorting z)
set(debian_packages libgrpc++-dev libc-ares-dev zlib1g-dev)  # of these archives
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/deploy/portable-deps.sh OUTPUT_VARIABLE portable_deps OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND dpkg-query -W -f "\${source:Package} \${source:Version}\n" ${debian_packages}
                OUTPUT_VARIABLE versions COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${portable_deps}/versions)
file(READ ${portable_deps}/versions built_versions)
string(STRIP "${versions}${built_versions}" versions)
string(REPLACE "\n" ";" versions "${versions}")
list(SORT versions)
list(JOIN versions ", " RANKLOG_STATIC_PARTS)
string(PREPEND RANKLOG_STATIC_PARTS " with ")

file(GLOB archives ${portable_deps}/*.a)
foreach(name ${debian_archives})
  find_library(RANKLOG_PORTABLE_${name} lib${name}.a REQUIRED)
  mark_as_advanced(RANKLOG_PORTABLE_${name})
  list(APPEND archives ${RANKLOG_PORTABLE_${name}})
endforeach()
# Before 2.34, libpthread and libdl held what libc holds here.
add_library(ranklog_portable_libraries INTERFACE)
target_link_libraries(ranklog_portable_libraries INTERFACE
  -Wl,--start-group ${archives} -Wl,--end-group -Wl,--push-state,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -Wl,--pop-state)
