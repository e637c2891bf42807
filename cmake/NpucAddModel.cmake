# npuc_add_model(<target> <model.onnx>
#                [OUTPUT <file>]              default: <target>.bin in the current binary folder
#                [FLAGS <flag>...]            npuc's, as on the command line: --target edge-6t --min-coverage 95
#                [DEPENDS <file>...]          what the flags name, or lies beside the model: external data, samples,
#                                             a target's YAML; --baseline, --ops, --quant-config, --preprocess and
#                                             --target FILE.yaml are found in FLAGS without being listed
#                [HEADER <file>]              also a C header with the binary as an array, see below
#                [NO_REPORT]                  no <output>.report.json and .report.html
#                [EXCLUDE_FROM_ALL])
#
# Compiles the model when its file, a dependency or npuc itself is newer than the binary. A gate that is not met fails the
# build; the binary and its report are there to be looked at, and the next build tries again. Relative paths are those of
# the current source folder, outputs those of the current binary folder.
#
# Target properties: NPUC_BINARY, NPUC_REPORT (JSON), NPUC_HEADER, absolute paths. The header defines
#   static const unsigned char <target>_model[] (aligned to 64 bytes) and enum { <target>_model_size = N };
# with characters of the target's name that C does not allow as '_'. For models of a few MiB at most.
include_guard()

set(_NPUC_HEADER_SCRIPT "${CMAKE_CURRENT_LIST_DIR}/NpucBinaryToHeader.cmake")

function(npuc_add_model target model)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "NO_REPORT;EXCLUDE_FROM_ALL" "OUTPUT;HEADER" "FLAGS;DEPENDS")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "npuc_add_model(${target}): unknown arguments: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  cmake_path(ABSOLUTE_PATH model BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
  if(NOT ARG_OUTPUT)
    set(ARG_OUTPUT "${target}.bin")
  endif()
  cmake_path(ABSOLUTE_PATH ARG_OUTPUT BASE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}" NORMALIZE)
  cmake_path(REMOVE_EXTENSION ARG_OUTPUT LAST_ONLY OUTPUT_VARIABLE prefix)

  # Files among the flags, as "--flag file", "--flag=file" or "--calib input=file".
  set(depends "${model}" ${ARG_DEPENDS})
  foreach(flag ${ARG_FLAGS})
    string(REGEX REPLACE "^--[a-z-]+=" "" file "${flag}")
    string(REGEX REPLACE "^[^=]*=@?" "" named "${file}")
    foreach(path "${file}" "${named}")
      if(path STREQUAL "" OR path MATCHES "^-")
        continue()
      endif()
      cmake_path(ABSOLUTE_PATH path BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
      if(EXISTS "${path}" AND NOT IS_DIRECTORY "${path}")
        list(APPEND depends "${path}")
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES depends)

  set(outputs "${ARG_OUTPUT}")
  set(flags ${ARG_FLAGS})
  if(ARG_NO_REPORT)
    list(APPEND flags --no-report)
  else()
    list(APPEND outputs "${prefix}.report.json" "${prefix}.report.html")
  endif()
  # npuc -q says what is wrong and nothing else. The stamp is what a failed gate does not leave behind.
  set(stamp "${CMAKE_CURRENT_BINARY_DIR}/${target}.npuc-stamp")
  add_custom_command(
    OUTPUT "${stamp}" ${outputs}
    COMMAND npuc::npuc "${model}" -o "${ARG_OUTPUT}" -q ${flags}
    COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
    DEPENDS ${depends} npuc::npuc
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    COMMENT "npuc ${target}"
    VERBATIM)
  set(made "${stamp}")
  if(ARG_HEADER)
    cmake_path(ABSOLUTE_PATH ARG_HEADER BASE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}" NORMALIZE)
    string(MAKE_C_IDENTIFIER "${target}" name)
    add_custom_command(
      OUTPUT "${ARG_HEADER}"
      COMMAND "${CMAKE_COMMAND}" "-DIN=${ARG_OUTPUT}" "-DOUT=${ARG_HEADER}" "-DNAME=${name}_model" -P
              "${_NPUC_HEADER_SCRIPT}"
      DEPENDS "${stamp}" "${ARG_OUTPUT}" "${_NPUC_HEADER_SCRIPT}"
      COMMENT "header of ${target}"
      VERBATIM)
    list(APPEND made "${ARG_HEADER}")
  endif()
  if(ARG_EXCLUDE_FROM_ALL)
    add_custom_target(${target} DEPENDS ${made})
  else()
    add_custom_target(${target} ALL DEPENDS ${made})
  endif()
  set_target_properties(${target} PROPERTIES NPUC_BINARY "${ARG_OUTPUT}" NPUC_HEADER "${ARG_HEADER}")
  if(NOT ARG_NO_REPORT)
    set_target_properties(${target} PROPERTIES NPUC_REPORT "${prefix}.report.json")
  endif()
endfunction()
