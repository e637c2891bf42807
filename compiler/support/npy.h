// NumPy's .npy (versions 1 to 3) and .npz files, as raw bytes with a type string. What the strings mean to a model is
// decided in compiler/types and above.
#pragma once

#include "compiler/support/mapped_file.h"
#include "compiler/support/status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace npuc {

struct NpyArray {
  // NumPy's type string in little-endian form: "<f4", "|u1", "|b1", "<c8", "|S12", "<U7", "|V2" ...
  std::string descr;
  int64_t item_size = 0; // bytes; of "<U7": 28
  std::vector<int64_t> shape;
  std::span<const uint8_t> bytes; // C order, little-endian
  std::shared_ptr<const void> owner;

  char kind() const { return descr[1]; } // f i u b c S U V
  int64_t NumElements() const;
};

// Fortran order is transposed and big-endian data swapped while reading; objects and records are refused.
// Errors: E0101, E0103 with the file's name.
StatusOr<NpyArray> ReadNpy(const std::string &path);
// `bytes` stay alive by `owner`; `name` is for errors.
StatusOr<NpyArray> ParseNpy(std::span<const uint8_t> bytes, std::string_view name, std::shared_ptr<const void> owner);

// Version 1 (2 for very long headers), C order. The data begins at a multiple of 64 bytes. Errors: E0102.
Status WriteNpy(const std::string &path, std::string_view descr, std::span<const int64_t> shape,
                std::span<const uint8_t> bytes);
// The header that WriteNpy writes before the data.
std::string NpyHeader(std::string_view descr, std::span<const int64_t> shape);

struct NpzEntry {
  std::string name; // without ".npy"
  NpyArray array;
};
// Stored and deflated entries, in the file's order; checksums are verified. Errors: E0101, E0103.
StatusOr<std::vector<NpzEntry>> ReadNpz(const std::string &path);
StatusOr<std::vector<NpzEntry>> ParseNpz(const MappedFile &file);

} // namespace npuc
