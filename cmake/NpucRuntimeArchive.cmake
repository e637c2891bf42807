# target npu_runtime: lib/libnpu_runtime.a, everything behind runtime_stub/npu_runtime.h in one archive, the
# distribution's static libraries included, so that a user links one file and the C++ runtime.
set(archives)
set(third_party)
foreach(lib runtime_stub interp ops verify container timing isa ir memory target types support)
  get_property(scope GLOBAL PROPERTY NPUC_IS_${lib})
  if(scope STREQUAL PUBLIC)
    list(APPEND archives $<TARGET_FILE:npuc_${lib}>)
    list(APPEND libraries npuc_${lib})
    get_target_property(links npuc_${lib} INTERFACE_LINK_LIBRARIES)
    list(FILTER links INCLUDE REGEX "^/.*\\.a$") # given by path
    list(APPEND third_party ${links})
  endif()
endforeach()
list(APPEND archives $<TARGET_FILE:npuc_fmt> $<TARGET_FILE:LLVMSupport> $<TARGET_FILE:LLVMDemangle> ${NPUC_ZLIB_A}
  ${NPUC_ZSTD_A} ${PNG_LIBRARY_RELEASE} ${JPEG_LIBRARY_RELEASE} $<TARGET_FILE:npuc_highway> ${third_party})
foreach(name ${absl_archives})
  string(REGEX REPLACE "^-l:" "" file ${name})
  find_library(NPUC_ARCHIVE_${file} NAMES ${file} REQUIRED)
  list(APPEND archives ${NPUC_ARCHIVE_${file}})
endforeach()
set(runtime_archive ${CMAKE_BINARY_DIR}/lib/libnpu_runtime.a)
set(script ${CMAKE_BINARY_DIR}/generated/npu_runtime.mri)
list(REMOVE_DUPLICATES archives)
list(TRANSFORM archives PREPEND "addlib ")
list(JOIN archives "\n" lines)
file(GENERATE OUTPUT ${script} CONTENT "create ${runtime_archive}\n${lines}\nsave\nend\n")
add_custom_command(OUTPUT ${runtime_archive}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${runtime_archive}
  COMMAND ${CMAKE_AR} -M < ${script}
  DEPENDS ${libraries} npuc_fmt ${script}
  COMMENT "libnpu_runtime.a")
add_custom_target(npu_runtime ALL DEPENDS ${runtime_archive})
