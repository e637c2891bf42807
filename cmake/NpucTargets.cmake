# npuc_level, npuc_library, npuc_tool: one target a folder, found by globbing.

define_property(GLOBAL PROPERTY NPUC_LIBS)   # libraries of the levels before the current one
define_property(GLOBAL PROPERTY NPUC_LEVEL)  # libraries of the current level

# npuc_level(a b c): the libraries defined next are siblings a, b, c.
function(npuc_level)
  get_property(before GLOBAL PROPERTY NPUC_LIBS)
  get_property(level GLOBAL PROPERTY NPUC_LEVEL)
  set_property(GLOBAL PROPERTY NPUC_LIBS ${before} ${level})
  set_property(GLOBAL PROPERTY NPUC_LEVEL ${ARGN})
endfunction()

# npuc_library(name folder [RECURSE] [LINK libs...] [ONLY libs...])
# Static library npuc_<name> of the folder's *.cc files; an interface library while there are none. Links all
# libraries of earlier levels (ONLY restricts them) and LINK.
function(npuc_library name folder)
  cmake_parse_arguments(ARG "RECURSE" "" "LINK;ONLY" ${ARGN})
  if(ARG_RECURSE)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
  else()
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
  endif()
  if(sources)
    add_library(npuc_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(npuc_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  if(ARG_ONLY)
    set(before ${ARG_ONLY})
  else()
    get_property(before GLOBAL PROPERTY NPUC_LIBS)
  endif()
  list(REVERSE before)
  list(TRANSFORM before PREPEND npuc_)
  target_link_libraries(npuc_${name} ${scope} npuc_base ${before} ${ARG_LINK})
  set_property(GLOBAL PROPERTY NPUC_IS_${name} ${scope})
endfunction()

# All libraries, the last first (link order).
function(npuc_all_libraries out)
  get_property(before GLOBAL PROPERTY NPUC_LIBS)
  get_property(level GLOBAL PROPERTY NPUC_LEVEL)
  set(all ${before} ${level})
  list(REVERSE all)
  list(TRANSFORM all PREPEND npuc_)
  set(${out} ${all} PARENT_SCOPE)
endfunction()

# npuc_tool(name): program <name> of tools/<name>/*.cc, nothing while the folder has none.
function(npuc_tool name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/${name}/*.cc)
  if(NOT sources)
    return()
  endif()
  npuc_all_libraries(all)
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${all})
  if(NOT NPUC_SANITIZE)
    target_link_options(${name} PRIVATE -static) # a loader and its page faults are half of a short run
  endif()
  set_property(GLOBAL APPEND PROPERTY NPUC_TOOLS ${name})
endfunction()

# FlatBuffers schemas of a folder: <folder>/x.fbs is compiled to "<folder>/x_generated.h".
function(npuc_flatbuffers lib folder)
  file(GLOB schemas CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.fbs)
  set(headers)
  set(out ${CMAKE_BINARY_DIR}/generated/${folder})
  foreach(schema ${schemas})
    get_filename_component(stem ${schema} NAME_WE)
    set(header ${out}/${stem}_generated.h)
    add_custom_command(OUTPUT ${header}
      COMMAND ${NPUC_FLATC} --cpp --scoped-enums --gen-mutable -o ${out} ${schema}
      DEPENDS ${schema} COMMENT "flatc ${stem}.fbs" VERBATIM)
    list(APPEND headers ${header})
  endforeach()
  if(NOT headers)
    return()
  endif()
  add_custom_target(npuc_${lib}_fbs DEPENDS ${headers})
  add_dependencies(npuc_${lib} npuc_${lib}_fbs)
  get_property(scope GLOBAL PROPERTY NPUC_IS_${lib})
  target_link_libraries(npuc_${lib} ${scope} ${NPUC_FLATBUFFERS_A})
endfunction()

# targets/*.yaml as text in the binary: BUILD/generated/compiler/target/presets.inc, rows NPUC_PRESET(name, text).
function(npuc_embed_targets)
  file(GLOB yamls CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/targets/*.yaml)
  list(SORT yamls)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${yamls})
  set(rows "// Made by CMake from targets/*.yaml.\n")
  foreach(yaml ${yamls})
    get_filename_component(name ${yaml} NAME_WE)
    file(READ ${yaml} body)
    string(APPEND rows "NPUC_PRESET(\"${name}\", R\"npuc-yaml(${body})npuc-yaml\")\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/compiler/target/presets.inc CONTENT "${rows}" @ONLY)
endfunction()
