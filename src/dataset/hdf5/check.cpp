// What the library is told once, and the text of its error stack.
#include "dataset/hdf5/check.hpp"

#include <cstdlib>
#include <string_view>

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

namespace {

/// A failed read or write of a file: a long line of addresses and sizes, with a time that breaks it in two.
std::string readable(const std::string& text) {
  constexpr std::string_view mark = "error message = '";
  if (const auto at = text.find(mark); at != std::string::npos) {
    const std::string reason = text.substr(at + mark.size());
    return reason.substr(0, reason.find('\''));
  }
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string error_text() {
  std::string text = "no message";
  const auto take = [](unsigned, const H5E_error2_t* entry, void* target) -> herr_t {
    if (entry->desc) *static_cast<std::string*>(target) = entry->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, take, &text);
  return readable(text);
}

}  // namespace muster::dataset::hdf5
