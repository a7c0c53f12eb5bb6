# Debian packages with the self-contained libranklog.so. `cpack` in the build tree makes them. Each package is a group of
# installed components; deploy/debian/PACKAGE has the files that only the package needs.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ranklog)
set(CPACK_PACKAGE_VENDOR "The Ranklog authors")
set(CPACK_PACKAGE_CONTACT "The Ranklog authors <maintainers@ranklog.invalid>")  # package.sh takes DEBFULLNAME and DEBEMAIL
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/deploy/debian/finish.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL)

# ranklog_package(NAME COMPONENTS c... SECTION s SUMMARY text DESCRIPTION text [DEPENDS d] [RECOMMENDS r] [SUGGESTS s])
macro(ranklog_package name)
  cmake_parse_arguments(ARG "" "SECTION;SUMMARY;DESCRIPTION;DEPENDS;RECOMMENDS;SUGGESTS" "COMPONENTS" ${ARGN})
  string(TOUPPER ${name} key)
  foreach(component ${ARG_COMPONENTS})
    string(TOUPPER ${component} component_key)
    set(CPACK_COMPONENT_${component_key}_GROUP ${name})
  endforeach()
  list(APPEND CPACK_COMPONENTS_ALL ${ARG_COMPONENTS})
  set(CPACK_COMPONENT_GROUP_${key}_DESCRIPTION "${ARG_DESCRIPTION}")
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${ARG_SECTION})
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${ARG_SUMMARY}\n${ARG_DESCRIPTION}")
  foreach(relation DEPENDS RECOMMENDS SUGGESTS)
    if(ARG_${relation})
      set(CPACK_DEBIAN_${key}_PACKAGE_${relation} "${ARG_${relation}}")
    endif()
  endforeach()
  set(CPACK_DEBIAN_${key}_PACKAGE_CONTROL_EXTRA)
  foreach(file preinst postinst prerm postrm triggers)
    if(EXISTS ${PROJECT_SOURCE_DIR}/deploy/debian/${name}/${file})
      list(APPEND CPACK_DEBIAN_${key}_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/deploy/debian/${name}/${file})
    endif()
  endforeach()
endmacro()

set(same_version "(= ${PROJECT_VERSION})")
ranklog_package(ranklog COMPONENTS programs systemd SECTION science
  SUMMARY "experiment log of distributed training: daemon and command line"
  DESCRIPTION "ranklogd runs on each node, takes the rows that the ranks of a training
job log, keeps them on disk and delivers them to Weights & Biases, exactly
once. ranklog shows, exports, verifies and syncs them.
.
With units for systemd and scripts for Slurm."
  RECOMMENDS ca-certificates)
ranklog_package(libranklog0 COMPONENTS library SECTION libs
  SUMMARY "experiment log of distributed training: client library"
  DESCRIPTION "The library by which a training program logs. A call of Log() takes tens of
nanoseconds and never blocks. A row that it accepted survives the process.
.
gRPC, Protobuf and Abseil are inside, so that a program may use others."
  RECOMMENDS ranklog)
ranklog_package(libranklog-dev COMPONENTS development SECTION libdevel
  SUMMARY "experiment log of distributed training: headers"
  DESCRIPTION "The headers of libranklog, for C++17 and later and for C11, with a
CMake package and a file for pkg-config."
  DEPENDS "libranklog0 ${same_version}")
if(RANKLOG_TRAINER)
  ranklog_package(ranklog-train COMPONENTS trainer SECTION science
    SUMMARY "trainer of small language models that logs to Ranklog"
    DESCRIPTION "ranklog-train trains a GPT with LibTorch, data parallel over processes, on
CPUs. It is an example of a training program that logs to Ranklog, and a
way to try a cluster."
    DEPENDS "libranklog0 ${same_version}" RECOMMENDS "ranklog, jargon-text, libopenblas0-pthread")
endif()
include(CPack)
