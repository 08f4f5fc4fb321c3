// What the library is told once, and the text of its error stack.
#include "dataset/hdf5/check.hpp"

#include <cstdlib>

namespace muster::dataset::hdf5 {

void prepare_library() {
  static const bool is_prepared = [] {
    // Shared file systems often have no locks, and readers need none.
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
    // Every file has an owner that closes it. One that a full disk left half-written would crash the library's own
    // clean-up at exit, and with it the exit code.
    H5dont_atexit();
    H5open();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    return true;
  }();
  (void)is_prepared;
}

std::string error_text() {
  std::string text = "no message";
  const auto take = [](unsigned, const H5E_error2_t* entry, void* target) -> herr_t {
    if (entry->desc) *static_cast<std::string*>(target) = entry->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, take, &text);
  return text;
}

}  // namespace muster::dataset::hdf5
