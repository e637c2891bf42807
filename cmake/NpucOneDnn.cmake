# target npuc_onednn: oneDNN's C API, loaded on first use (third_party/onednn/lazy.h).
find_library(NPUC_ONEDNN_LIB NAMES dnnl REQUIRED)
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  message(FATAL_ERROR "third_party/onednn has trampolines for x86-64 only")
endif()

execute_process(COMMAND ${CMAKE_NM} -D --defined-only ${NPUC_ONEDNN_LIB} OUTPUT_VARIABLE symbols
  COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " T dnnl_[a-z0-9_]+" functions "${symbols}")
list(TRANSFORM functions REPLACE " T " "")
list(SORT functions)
execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${NPUC_ONEDNN_LIB} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "SONAME +([^ \n]+)" match "${dynamic}")
set(soname ${CMAKE_MATCH_1})

set(stubs "// Made by cmake/NpucOneDnn.cmake.\n\t.text\n")
set(names)
set(text)
set(k 0)
foreach(f ${functions})
  string(APPEND stubs "\t.globl ${f}\n\t.type ${f}, @function\n${f}:\n\tmovq npuc_onednn_table+${k}*8(%rip), %r11\n"
    "\ttestq %r11, %r11\n\tje 1f\n\tjmp *%r11\n1:\tmovl $${k}, %r11d\n\tjmp npuc_onednn_first\n")
  string(APPEND names "\t.quad .Lname${k}\n")
  string(APPEND text "\n.Lname${k}: .asciz \"${f}\"")
  math(EXPR k "${k} + 1")
endforeach()
# Integer and vector argument registers are saved around the look-up; the stack is 8 off 16 on entry.
string(APPEND stubs "npuc_onednn_first:
\tpushq %rdi\n\tpushq %rsi\n\tpushq %rdx\n\tpushq %rcx\n\tpushq %r8\n\tpushq %r9\n\tpushq %rax
\tsubq $128, %rsp\n")
foreach(i RANGE 7)
  math(EXPR at "${i} * 16")
  string(APPEND stubs "\tmovups %xmm${i}, ${at}(%rsp)\n")
endforeach()
string(APPEND stubs "\tmovq %r11, %rdi\n\tcall npuc_onednn_resolve\n\tmovq %rax, %r11\n")
foreach(i RANGE 7)
  math(EXPR at "${i} * 16")
  string(APPEND stubs "\tmovups ${at}(%rsp), %xmm${i}\n")
endforeach()
string(APPEND stubs "\taddq $128, %rsp
\tpopq %rax\n\tpopq %r9\n\tpopq %r8\n\tpopq %rcx\n\tpopq %rdx\n\tpopq %rsi\n\tpopq %rdi\n\tjmp *%r11
\t.bss\n\t.balign 8\n\t.globl npuc_onednn_table\nnpuc_onednn_table:\n\t.zero ${k}*8
\t.section .data.rel.ro,\"aw\"\n\t.balign 8\n\t.globl npuc_onednn_names\nnpuc_onednn_names:\n${names}
\t.section .rodata.str,\"a\"${text}
\t.section .note.GNU-stack,\"\",@progbits\n")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/onednn/lazy_stubs.S CONTENT "${stubs}" @ONLY)

add_library(npuc_onednn STATIC third_party/onednn/lazy.cc ${CMAKE_BINARY_DIR}/generated/onednn/lazy_stubs.S)
target_compile_definitions(npuc_onednn PRIVATE NPUC_ONEDNN_SONAME="${soname}")
target_link_libraries(npuc_onednn PUBLIC npuc_base ${CMAKE_DL_LIBS})
