# CPack runs this after it installed the files and before it makes the packages. It meets Debian's rules for their files.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
file(GLOB packages ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
if(NOT packages)
  message(FATAL_ERROR "no packages below ${CPACK_TEMPORARY_INSTALL_DIRECTORY}")
endif()
set(source ${CMAKE_CURRENT_LIST_DIR}/../..)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # of SOURCE_DATE_EPOCH, if that is set

function(compress)
  execute_process(COMMAND gzip -9n ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(root ${packages})
  cmake_path(GET root FILENAME package)
  set(doc ${root}/usr/share/doc/${package})
  file(MAKE_DIRECTORY ${doc})

  file(GLOB_RECURSE pages ${root}/usr/share/man/*.[1-9])
  if(pages)
    compress(${pages})
  endif()
  if(EXISTS ${root}/usr/share/zsh/site-functions)  # where zsh of Debian looks for those of packages
    file(RENAME ${root}/usr/share/zsh/site-functions ${root}/usr/share/zsh/vendor-completions)
  endif()

  file(WRITE ${doc}/changelog "ranklog (${CPACK_PACKAGE_VERSION}) stable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  compress(${doc}/changelog)

  file(COPY_FILE ${source}/LICENSE ${doc}/copyright)
  # The licences of the parts of libranklog.so, from the Debian packages that it was built from.
  if(package STREQUAL "libranklog0")
    foreach(inside libgrpc++-dev libprotobuf-dev libabsl-dev libc-ares-dev zlib1g-dev)
      file(READ /usr/share/doc/${inside}/copyright text)
      file(APPEND ${doc}/copyright "\n\n======== Inside libranklog.so, of ${inside}:\n\n${text}")
    endforeach()
  endif()

  if(package STREQUAL "ranklog")
    file(READ ${source}/service/ui/third_party/uPlot.LICENSE text)
    file(APPEND ${doc}/copyright "\n\n======== Inside the program ranklog, of uPlot:\n\n${text}")
  endif()

  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/${package}/lintian-overrides)
    file(MAKE_DIRECTORY ${root}/usr/share/lintian/overrides)
    file(COPY_FILE ${CMAKE_CURRENT_LIST_DIR}/${package}/lintian-overrides ${root}/usr/share/lintian/overrides/${package})
  endif()

  file(GLOB binaries ${root}/usr/bin/* ${root}/usr/lib/*.so.*.* ${root}/usr/libexec/ranklog/*)
  foreach(binary ${binaries})
    file(RPATH_REMOVE FILE ${binary})  # libraries of packages are found without
    execute_process(COMMAND strip --strip-unneeded --remove-section=.comment --remove-section=.note ${binary} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endforeach()
