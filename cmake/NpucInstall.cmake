# cmake --install: programs, target descriptions, the runtime as a library with its public headers, documents, and the
# CMake package that find_package(npuc) reads. And the fuzzers, if asked for.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(npuc_package ${CMAKE_INSTALL_LIBDIR}/cmake/npuc)
get_property(tools GLOBAL PROPERTY NPUC_TOOLS)
if(tools)
  install(TARGETS ${tools} EXPORT npucTools RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(EXPORT npucTools NAMESPACE npuc:: DESTINATION ${npuc_package})
endif()
write_basic_package_version_file(${CMAKE_BINARY_DIR}/npucConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_package_config_file(cmake/npucConfig.cmake.in ${CMAKE_BINARY_DIR}/npucConfig.cmake
  INSTALL_DESTINATION ${npuc_package} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
install(FILES ${CMAKE_BINARY_DIR}/npucConfigVersion.cmake ${CMAKE_BINARY_DIR}/npucConfig.cmake
              cmake/NpucAddModel.cmake cmake/NpucBinaryToHeader.cmake DESTINATION ${npuc_package})
include(NpucRuntimeArchive)
install(FILES ${runtime_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY targets DESTINATION ${CMAKE_INSTALL_DATADIR}/npuc FILES_MATCHING PATTERN "*.yaml")
install(FILES runtime_stub/npu_runtime.h runtime_stub/npu_runtime.hpp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/npuc)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(NPUC_FUZZ)
  npuc_all_libraries(all)
  file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/fuzz/*_fuzz.cc)
  foreach(fuzzer ${fuzzers})
    get_filename_component(stem ${fuzzer} NAME_WE)
    add_executable(${stem} ${fuzzer})
    target_link_libraries(${stem} PRIVATE ${all} npuc_base)
    target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
  endforeach()
endif()
