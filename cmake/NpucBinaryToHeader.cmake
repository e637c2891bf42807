# cmake -DIN=model.bin -DOUT=model.h -DNAME=net_model -P NpucBinaryToHeader.cmake
file(READ "${IN}" hex HEX)
file(SIZE "${IN}" size)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE "${OUT}.new" "// Made by npuc_add_model. Do not edit.
#pragma once
enum { ${NAME}_size = ${size} };
#ifdef __cplusplus
alignas(64)
#else
_Alignas(64)
#endif
static const unsigned char ${NAME}[${size}] = {
${hex}};
")
file(RENAME "${OUT}.new" "${OUT}")
