// What encoder and decoder share: the size of the header and when the compact forms apply.
#pragma once

#include "backend/isa/commands.h"

namespace npuc::isa {

inline constexpr int kHeaderWords = 6;

// Offsets of 0 .. 2^32-1 take one word, all others two.
bool FitsU32(int64_t v);
// Extents 1 .. 65536, c0 below 65536, strides of 32 bits: a view takes 9 words instead of 18.
bool FitsCompact(const View &v);

} // namespace npuc::isa
