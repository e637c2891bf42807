// The samples that --calib names: files and folders, put together to values of all inputs.
//
//   one input       --calib PATH, repeatable, or --calib NAME=PATH
//   several inputs  --calib NAME=PATH for each; or one PATH of .npz files or data-set folders, which have all inputs
//
// PATH is a file or a folder; of a folder, its files in the order of their names (bytes), without hidden ones and those
// whose ending is none of kSampleSuffixes. A folder with input_0.pb is one sample (the layout of ONNX's test data:
// input_K.pb is the K-th input); so is each such folder in a folder. A .npy or .npz with one axis more than the input,
// or with more rows than the input's fixed first axis, holds several samples.
// Inputs pair up by order and have equally many samples; a single file for an input goes with every sample.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/calibration/calibrate.h"
#include "compiler/driver/samples.h"

namespace npuc {

inline constexpr std::string_view kSampleSuffixes[] = {".npy", ".npz", ".pb",   ".png",  ".jpg", ".jpeg",
                                                       ".raw", ".bin", ".nv12", ".nv21", ".yuv"};

class SampleSet final : public SampleSource {
public:
  struct Input {
    std::string name;
    Type type;
  };
  // Errors: E0101, E0103, E0509 (a folder without samples), E0510 (inputs with different numbers of samples), E0701 (an
  // input without samples, a name that is no input).
  static StatusOr<SampleSet> Open(const std::vector<std::string> &calib, std::vector<Input> inputs,
                                  Preprocess preprocess);

  int64_t size() const override { return size_; }
  std::string name(int64_t sample) const override;
  std::string base_name(int64_t sample) const; // without the folder that the user named
  // Values as the inputs' types want them, in the order of the inputs.
  StatusOr<std::vector<EvalValue>> Read(int64_t sample) const override;
  // Of the samples' names without their folders.
  uint64_t NamesHash() const;

private:
  // The value of one input: a file, or one of the samples in it.
  struct Piece {
    std::string path;
    std::string base; // the path from the folder that the user named
    std::string SampleName() const;
    std::shared_ptr<const Tensor> stack; // of several samples; null: the whole file is one
    int64_t slice = -1, rows = 0;        // which, and how many of the first axis it has; 0 rows: the axis goes
  };
  // Files of `path` for the input of this number; `joint`: the path is for all inputs.
  static StatusOr<std::vector<Piece>> Expand(const std::string &path, const Input &input, size_t number, bool joint);
  const Piece &PieceOf(int64_t sample) const;
  StatusOr<EvalValue> ReadPiece(const Piece &piece, const Input &input) const;

  std::vector<Input> inputs_;
  Preprocess preprocess_;
  std::vector<std::vector<Piece>> pieces_; // by input; one, or size_
  int64_t size_ = 0;
};

} // namespace npuc
