# Third-party libraries; third_party/README.md says what each is for. Programs start in milliseconds, so
# everything is linked statically where the distribution has an archive.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
set(ZLIB_USE_STATIC_LIBS ON)
find_library(NPUC_ZLIB_A NAMES libz.a REQUIRED)
set(ZLIB_LIBRARY ${NPUC_ZLIB_A})
find_package(ZLIB REQUIRED)
find_library(PNG_LIBRARY_RELEASE NAMES libpng.a REQUIRED)
find_package(PNG REQUIRED)
find_library(JPEG_LIBRARY_RELEASE NAMES libjpeg.a REQUIRED)
find_package(JPEG REQUIRED)
find_library(NPUC_WEBP_A NAMES libwebp.a REQUIRED)
find_library(NPUC_OPENJPEG_A NAMES libopenjp2.a REQUIRED)

# LLVM's support library (never the whole libLLVM).
find_package(LLVM 19.1 REQUIRED CONFIG PATHS /usr/lib/llvm-19/lib/cmake/llvm NO_DEFAULT_PATH)
find_library(NPUC_ZSTD_A NAMES libzstd.a REQUIRED)
foreach(lib LLVMSupport LLVMFileCheck)
  set_property(TARGET ${lib} APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${LLVM_INCLUDE_DIRS})
  set_property(TARGET ${lib} APPEND PROPERTY INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${LLVM_INCLUDE_DIRS})
endforeach()
set_property(TARGET LLVMSupport PROPERTY INTERFACE_LINK_LIBRARIES
  LLVMDemangle ZLIB::ZLIB ${NPUC_ZSTD_A} rt dl m)

# Abseil: the archives that pkg-config names, as one link group.
pkg_check_modules(NPUC_ABSL REQUIRED absl_status absl_statusor absl_synchronization absl_strings absl_cord
  absl_flat_hash_map absl_flat_hash_set)
set(absl_archives)
foreach(lib ${NPUC_ABSL_STATIC_LIBRARIES})
  if(lib MATCHES "^absl_")
    list(APPEND absl_archives -l:lib${lib}.a)
  endif()
endforeach()
list(REMOVE_DUPLICATES absl_archives)
add_library(npuc_absl INTERFACE)
add_library(absl::npuc ALIAS npuc_absl)
list(JOIN absl_archives "," absl_group)
target_link_libraries(npuc_absl INTERFACE "-Wl,--start-group,${absl_group},--end-group")

# fmt: the distribution has only the shared library, so its one source file is compiled here.
add_library(npuc_fmt STATIC third_party/fmt/format.cc)
target_link_libraries(npuc_fmt PUBLIC npuc_base)

# ONNX's schema, generated as lite messages.
set(Protobuf_USE_STATIC_LIBS ON)
find_package(Protobuf REQUIRED MODULE)
include(NpucOnnxProto)

# Highway: headers, and what dynamic dispatch calls (the distribution has only the shared library).
find_path(NPUC_HIGHWAY_INCLUDE hwy/highway.h REQUIRED)
add_library(npuc_highway STATIC third_party/highway/targets.cc)
target_include_directories(npuc_highway SYSTEM PUBLIC ${NPUC_HIGHWAY_INCLUDE})
target_link_libraries(npuc_highway PUBLIC npuc_base)

find_program(NPUC_FLATC flatc REQUIRED)
find_library(NPUC_FLATBUFFERS_A NAMES libflatbuffers.a REQUIRED)
