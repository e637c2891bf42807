// Encoding, decoding, text form and the data accesses of commands.
#pragma once

#include <string>
#include <vector>

#include "backend/isa/commands.h"
#include "compiler/support/status.h"
#include "compiler/target/target.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace npuc::isa {

// Little-endian 32-bit words: word 0 opcode:8 engine:8 words:16; word 1 layer; words 2-5 waits; then the fields.
// Reserved bits are zero.
void Encode(const Command &c, std::vector<uint32_t> *out);
std::vector<uint32_t> Encode(const Stream &s);
// Errors E0604: truncated, unknown opcode, wrong engine for the opcode, reserved bits set, enum out of range,
// over-long, not in the one form that Encode writes, END missing or not last.
StatusOr<Stream> Decode(llvm::ArrayRef<uint32_t> words);
// Words that Encode writes for the command, header included. Symbolic buffers are allowed (they count like an offset
// below 4 GiB).
int64_t EncodedWords(const Command &c);
// DMA: LD and ST; GATHER and END: LD; CONV, MATMUL: MXU; others: VPU.
bool EngineRuns(Engine e, Opcode o);

std::string Disassemble(
    const Command &c); // one line: `MXU CONV layer=3 wait=[LD:2] in=sram+0x40 i8 [1,5,8,16] ...`; defaults left out
StatusOr<Command> Assemble(std::string_view line); // inverse of Disassemble

// What a command reads and writes. Views are exact (byte sets); raw ranges are tables, weights and LUTs.
struct Access {
  bool write = false;
  const View *view = nullptr; // or
  Address address;            // a raw range
  int64_t bytes = 0;
  std::string_view what; // field name, for messages
};
void ForEachAccess(const Command &c, llvm::function_ref<void(const Access &)> fn);
// As above for every Address inside the command, mutable: emit turns buffers into addresses with it.
void ForEachAddress(Command &c, llvm::function_ref<void(Address &)> fn);

// Packed weight bytes (see Conv::weights) for given dims on a target; x is the activations' dtype, w the weights'.
int64_t PackedConvWeightBytes(const Target &t, DType x, DType w, ConvMode mode, int64_t oc, int64_t ic_per_group,
                              int64_t kh, int64_t kw, int64_t groups);
int64_t PackedMatMulWeightBytes(const Target &t, DType x, DType w, int64_t k, int64_t n);

} // namespace npuc::isa
