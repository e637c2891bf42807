// Memory for big tensors and buffers.
#pragma once

#include <cstddef>
#include <memory>

namespace npuc {

// `bytes` zeros, on huge pages when they are many: a first touch costs a fault for 2 MiB, not for each 4 KiB, and what
// is never touched takes no memory. Null when there is none.
std::shared_ptr<void> ZeroedMemory(size_t bytes);

} // namespace npuc
