// Moved left, to where the verifier can prove with it which rows a RESIZE reads.
#pragma once

#include "backend/isa/resize_math.h" // IWYU pragma: export
