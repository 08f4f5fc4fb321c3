// HDF5 handles and checks. Every call's result is tested; a failure carries HDF5's own error stack (its automatic
// printing is switched off). HDF5 is used by one thread at a time.
#pragma once

#include <muster/base/error.hpp>
#include <muster/base/handle.hpp>

#include <hdf5.h>

#include <string>

namespace muster::dataset::hdf5 {

template <herr_t (*Close)(hid_t)>
struct IdTraits {
  using type = hid_t;
  static constexpr type empty() { return -1; }
  static void release(type id) noexcept { Close(id); }
};
using File = UniqueHandle<IdTraits<H5Fclose>>;
using Group = UniqueHandle<IdTraits<H5Gclose>>;
using DataSet = UniqueHandle<IdTraits<H5Dclose>>;
using DataSpace = UniqueHandle<IdTraits<H5Sclose>>;
using DataType = UniqueHandle<IdTraits<H5Tclose>>;
using Attribute = UniqueHandle<IdTraits<H5Aclose>>;
using PropertyList = UniqueHandle<IdTraits<H5Pclose>>;

/// Silences HDF5's printing and file locks for this process; called before the first use.
void prepare_library();
/// The innermost message of HDF5's error stack: the system's reason where it holds one, else its first line.
std::string error_text();

template <class Value>
Value checked(Value value, const char* expression, ExitCode code) {
  if (value < 0) fail_library(code, "HDF5", expression, static_cast<long>(value), error_text());
  return value;
}

}  // namespace muster::dataset::hdf5

/// Evaluates an HDF5 call; throws Error(data) when its result is negative.
#define MUSTER_HDF5(call) ::muster::dataset::hdf5::checked((call), #call, ::muster::ExitCode::data)
/// The same for files of checkpoints.
#define MUSTER_HDF5_STORE(call) ::muster::dataset::hdf5::checked((call), #call, ::muster::ExitCode::checkpoint)
