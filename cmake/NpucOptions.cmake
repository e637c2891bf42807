# Compiler and linker settings that every target shares, carried by npuc_base.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELEASE "-O2") # asserts stay on: they are cheap and a wrong stream is dear
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(NPUC_CCACHE ccache)
if(NPUC_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${NPUC_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${NPUC_CCACHE})
endif()

add_library(npuc_base INTERFACE)
target_include_directories(npuc_base INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
# Bit-identical results on every machine need that a*b+c is never contracted.
# No errno and no floating-point traps: nobody looks, and loops vectorise; values stay as they are.
target_compile_options(npuc_base INTERFACE -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -Werror)
target_compile_definitions(npuc_base INTERFACE NPUC_VERSION="${PROJECT_VERSION}")
target_link_options(npuc_base INTERFACE -Wl,--as-needed)

find_program(NPUC_MOLD mold)
if(NPUC_MOLD)
  # What runs at the start of a program lies together: a few pages instead of one for each source file.
  target_link_options(npuc_base INTERFACE -fuse-ld=mold -Wl,-z,keep-text-section-prefix)
endif()

if(NPUC_SANITIZE)
  # vptr checks need type information that LLVM's library does not have.
  set(NPUC_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  if(NPUC_FUZZ)
    list(APPEND NPUC_SANITIZE_FLAGS -fsanitize=fuzzer-no-link)
  endif()
  target_compile_options(npuc_base INTERFACE ${NPUC_SANITIZE_FLAGS})
  target_link_options(npuc_base INTERFACE ${NPUC_SANITIZE_FLAGS})
endif()
