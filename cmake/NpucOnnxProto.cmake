# target npuc_onnx_proto: "onnx/onnx.pb.h" and "onnx/onnx-data.pb.h", lite messages.
#
# The distribution's onnx.proto is a few IR versions old. Its messages keep unknown fields, but what we want to
# read must be declared, so the fields added since are patched into the copy that protoc sees.

find_path(NPUC_ONNX_PROTO_DIR NAMES onnx/onnx.proto REQUIRED)
set(NPUC_ONNX_GEN ${CMAKE_BINARY_DIR}/generated/onnx)
set(onnx_proto ${NPUC_ONNX_PROTO_DIR}/onnx/onnx.proto)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${onnx_proto})
file(READ ${onnx_proto} text)

function(npuc_patch_proto anchor probe addition)
  string(FIND "${text}" "${probe}" have)
  if(have EQUAL -1)
    string(FIND "${text}" "${anchor}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "onnx.proto has no '${anchor}'")
    endif()
    string(REPLACE "${anchor}" "${anchor}\n${addition}" text "${text}")
    set(text "${text}" PARENT_SCOPE)
  endif()
endfunction()

npuc_patch_proto("message NodeProto {" "optional string overload = 8"
  "  optional string overload = 8;\n  repeated StringStringEntryProto metadata_props = 9;")
npuc_patch_proto("message FunctionProto {" "attribute_proto = 11"
  "  repeated AttributeProto attribute_proto = 11;")
npuc_patch_proto("message FunctionProto {" "optional string overload = 13"
  "  optional string overload = 13;\n  repeated ValueInfoProto value_info = 12;")
# Ours: where compiler/onnx/wire.cc left a long raw_data.
npuc_patch_proto("message TensorProto {" "npuc_raw_index"
  "  optional uint64 npuc_raw_index = 530000001;")
npuc_patch_proto("    Sequence sequence_type = 4;" "Opaque opaque_type = 7" "    Opaque opaque_type = 7;")
npuc_patch_proto("message TypeProto {" "message Opaque {"
  "  message Opaque {\n    optional string domain = 1;\n    optional string name = 2;\n  }")
string(FIND "${text}" "optimize_for = LITE_RUNTIME" have)
if(have EQUAL -1)
  string(APPEND text "\noption optimize_for = LITE_RUNTIME;\n")
endif()
file(CONFIGURE OUTPUT ${NPUC_ONNX_GEN}/onnx.proto CONTENT "${text}" @ONLY)
configure_file(third_party/onnx/onnx-data.proto ${NPUC_ONNX_GEN}/onnx-data.proto COPYONLY)

add_custom_command(
  OUTPUT ${NPUC_ONNX_GEN}/onnx.pb.cc ${NPUC_ONNX_GEN}/onnx.pb.h
         ${NPUC_ONNX_GEN}/onnx-data.pb.cc ${NPUC_ONNX_GEN}/onnx-data.pb.h
  COMMAND protobuf::protoc --proto_path=${CMAKE_BINARY_DIR}/generated --cpp_out=${CMAKE_BINARY_DIR}/generated
          onnx/onnx.proto onnx/onnx-data.proto
  DEPENDS ${NPUC_ONNX_GEN}/onnx.proto ${NPUC_ONNX_GEN}/onnx-data.proto
  COMMENT "protoc onnx.proto"
  VERBATIM)
add_library(npuc_onnx_proto STATIC ${NPUC_ONNX_GEN}/onnx.pb.cc ${NPUC_ONNX_GEN}/onnx-data.pb.cc)
target_include_directories(npuc_onnx_proto SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/generated)
target_link_libraries(npuc_onnx_proto PUBLIC protobuf::libprotobuf-lite Threads::Threads)
