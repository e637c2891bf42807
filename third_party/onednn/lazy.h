// oneDNN, loaded on first use.
//
// Its shared library is 40 MB and takes several milliseconds to load, more than all of `npuc --help`. So programs do
// not link it: npuc_onednn defines every dnnl_* function of the C API (dnnl.hpp uses nothing else) as a trampoline that
// opens the library on the first call and jumps to the real function, with a table look-up from the second call on.
#pragma once

namespace npuc {

// Whether the library can be loaded; loads it. A dnnl_* call without it prints why and aborts.
bool OneDnnAvailable();

} // namespace npuc
