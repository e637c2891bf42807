# Tests: test/<area>/*.cc is the GoogleTest binary <area>_test, linked with the libraries of the area's level and
# those before it (all libraries when the area is not named after one).
include(GoogleTest)
find_package(GTest REQUIRED CONFIG)

function(npuc_test_area area)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/${area}/*_test.cc)
  if(NOT tests)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/${area}/*.cc)
  set(lib ${area})
  if(area STREQUAL runtime)
    set(lib runtime_stub)
  endif()
  if(TARGET npuc_${lib})
    set(libs npuc_${lib})
  else()
    npuc_all_libraries(libs)
  endif()
  if(area STREQUAL lower)
    list(PREPEND libs npuc_emit npuc_runtime_stub) # what was lowered is emitted and run
  endif()
  if(area STREQUAL onnx)
    list(PREPEND libs npuc_interp) # what was imported is run, too
  endif()
  add_executable(${area}_test ${sources})
  target_link_libraries(${area}_test PRIVATE ${libs} npuc_base GTest::gtest GTest::gtest_main LLVMFileCheck
    LLVMSupport)
  target_compile_definitions(${area}_test PRIVATE
    NPUC_SOURCE_DIR="${CMAKE_SOURCE_DIR}" NPUC_BUILD_DIR="${CMAKE_BINARY_DIR}")
  target_compile_options(${area}_test PRIVATE -Wno-dangling-else) # EXPECT_* after an if
  if(area STREQUAL text AND TARGET npu-opt)
    add_dependencies(text_test npu-opt) # the .ir tests run it
  endif()
  gtest_discover_tests(${area}_test DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    PROPERTIES LABELS ${area} DISCOVERY_TIMEOUT 60)
endfunction()

file(GLOB areas LIST_DIRECTORIES true CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/*)
foreach(path ${areas})
  get_filename_component(area ${path} NAME)
  if(IS_DIRECTORY ${path} AND NOT area MATCHES "^(bench|fuzz)$")
    npuc_test_area(${area})
  endif()
endforeach()

# ONNX's own test cases in process; a tool of the tests, see its first lines.
if(EXISTS ${CMAKE_SOURCE_DIR}/compiler/interp/interpreter.h)
  add_executable(onnx_backend_run test/onnx/backend/onnx_backend_run.cc)
  target_link_libraries(onnx_backend_run PRIVATE npuc_interp npuc_onnx npuc_base)
endif()

# Every instruction set of the executor gives the same bits: its tests once more on the plainest one.
add_test(NAME runtime.baseline COMMAND runtime_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(runtime.baseline PROPERTIES LABELS runtime ENVIRONMENT HWY_DISABLED_TARGETS=-1)

find_program(NPUC_PYTHON NAMES /usr/bin/python3 python3 REQUIRED)
file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/project/*.py)
foreach(script ${scripts})
  get_filename_component(stem ${script} NAME_WE)
  add_test(NAME project.${stem} COMMAND ${NPUC_PYTHON} ${script} ${CMAKE_SOURCE_DIR})
  set_tests_properties(project.${stem} PROPERTIES LABELS project)
endforeach()

# What cmake --install gives, and a project that uses it.
add_test(NAME project.install COMMAND ${NPUC_PYTHON} ${CMAKE_SOURCE_DIR}/test/install/install_test.py
  ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR} ${CMAKE_COMMAND} ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER} ${NPUC_SANITIZE_FLAGS})
set_tests_properties(project.install PROPERTIES LABELS project)

if(NPUC_BENCHMARKS)
  find_package(benchmark QUIET CONFIG)
  file(GLOB benches CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/bench/*_bench.cc)
  add_custom_target(benchmarks)
  if(benchmark_FOUND)
    npuc_all_libraries(all)
    foreach(bench ${benches})
      get_filename_component(stem ${bench} NAME_WE)
      add_executable(${stem} EXCLUDE_FROM_ALL ${bench})
      target_link_libraries(${stem} PRIVATE ${all} npuc_base benchmark::benchmark)
      target_compile_definitions(${stem} PRIVATE NPUC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
      add_dependencies(benchmarks ${stem})
    endforeach()
  endif()
endif()
