# Binaries that run on older systems and other distributions (RANKLOG_PORTABLE):
#   ranklog_portable_libraries   the static archives of gRPC and its dependencies, and the old libraries of glibc
#   RANKLOG_STATIC_PARTS         " with PACKAGE VERSION, ...": their source packages
#   RANKLOG_PROGRAM_PARTS        "PACKAGE VERSION, ...": the source packages of the static parts of a program
#   ranklog_portable_program(TARGET LIBRARIES libs...)   TARGET_portable, not in `all`: the same program with its
#                                dependencies inside, in BUILD/portable. libs: the folders' libraries
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" OR RANKLOG_SANITIZE)
  message(FATAL_ERROR "RANKLOG_PORTABLE is for x86-64, and without RANKLOG_SANITIZE")
endif()

# Sets `archives` to the archives that deploy/portable-deps.sh builds with the options ARGN, and to Debian's lib<name>.a
# for each name of `debian_archives`. Sets `parts` to their source packages. The packages `debian_packages` contain
# Debian's archives.
function(ranklog_portable_archives archives parts debian_archives debian_packages)
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/deploy/portable-deps.sh ${ARGN} OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND dpkg-query -W -f "\${source:Package} \${source:Version}\n" ${debian_packages}
                  OUTPUT_VARIABLE versions COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/versions)
  file(READ ${folder}/versions built_versions)
  string(STRIP "${versions}${built_versions}" versions)
  string(REPLACE "\n" ";" versions "${versions}")
  list(SORT versions)
  file(GLOB found ${folder}/*.a)
  foreach(name ${debian_archives})
    find_library(RANKLOG_PORTABLE_${name} lib${name}.a REQUIRED)
    mark_as_advanced(RANKLOG_PORTABLE_${name})
    list(APPEND found ${RANKLOG_PORTABLE_${name}})
  endforeach()
  set(${archives} ${found} PARENT_SCOPE)
  set(${parts} ${versions} PARENT_SCOPE)
endfunction()

# No C++ type and no memory crosses the API, so the library has a libstdc++ of its own, too.
ranklog_portable_archives(library_archives library_parts
  "grpc++_unsecure;grpc_unsecure;gpr;upb;cares;address_sorting;z" "libgrpc++-dev;libc-ares-dev;zlib1g-dev")
list(JOIN library_parts ", " RANKLOG_STATIC_PARTS)
string(PREPEND RANKLOG_STATIC_PARTS " with ")
# Before glibc 2.34, libpthread and libdl contained functions that libc contains here.
set(older_libc -Wl,--push-state,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 -Wl,--pop-state)
add_library(ranklog_portable_libraries INTERFACE)
target_link_options(ranklog_portable_libraries INTERFACE -static-libstdc++)
target_link_libraries(ranklog_portable_libraries INTERFACE -Wl,--start-group ${library_archives} -Wl,--end-group ${older_libc})

if(RANKLOG_SERVICE)
  # The daemons of several nodes use TLS, so the programs have gRPC with it. Its policies need RE2.
  ranklog_portable_archives(program_archives program_parts "grpc++;grpc;re2;ssl;crypto;sqlite3;protobuf"
                            "libgrpc-dev;libre2-dev;libssl-dev;libsqlite3-dev;libprotobuf-dev" --programs)
  set(shared_archives ${library_archives})
  list(FILTER shared_archives EXCLUDE REGEX "_unsecure\\.a$")
  set(program_parts ${library_parts} ${program_parts})
  list(SORT program_parts)
  list(REMOVE_DUPLICATES program_parts)
  list(JOIN program_parts ", " RANKLOG_PROGRAM_PARTS)
  set_property(GLOBAL PROPERTY ranklog_program_archives ${program_archives} ${shared_archives})
  set_property(GLOBAL PROPERTY ranklog_older_libc ${older_libc})
endif()

function(ranklog_portable_program target)
  cmake_parse_arguments(ARG "" "" "LIBRARIES" ${ARGN})
  get_property(archives GLOBAL PROPERTY ranklog_program_archives)
  get_property(older_libc GLOBAL PROPERTY ranklog_older_libc)
  get_target_property(name ${target} OUTPUT_NAME)
  if(NOT name)
    set(name ${target})
  endif()
  # Linked by their files, because the targets depend on the shared libraries.
  list(TRANSFORM ARG_LIBRARIES REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
  add_executable(${target}_portable EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}> $<TARGET_OBJECTS:ranklog_program_symbols>)
  add_dependencies(${target}_portable ${target} ${ARG_LIBRARIES})
  target_link_libraries(${target}_portable PRIVATE -Wl,--start-group ${files} ${archives} -Wl,--end-group ${older_libc})
  # libgcc stays shared, because a static one needs newer symbols than any other part.
  target_link_options(${target}_portable PRIVATE
    -static-libstdc++ -Wl,--gc-sections -Wl,-z,now -Wl,-z,relro -Wl,-z,nodynamic-undefined-weak)
  set_target_properties(${target}_portable PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/portable LINK_DEPENDS "${files}" SKIP_BUILD_RPATH ON)
endfunction()
