// MPI calls that fail become an Error. Works only because the session sets MPI_ERRORS_RETURN before anything else.
#pragma once

#include <muster/base/error.hpp>

#include <mpi.h>

namespace muster::comm {

inline std::string mpi_message(int status) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  return std::string(text, static_cast<std::size_t>(length));
}

}  // namespace muster::comm

#define MUSTER_MPI(call)                                                            \
  do {                                                                              \
    if (const int muster_status = (call); muster_status != MPI_SUCCESS)             \
      ::muster::fail_library(::muster::ExitCode::comm, "MPI", #call, muster_status, \
                             ::muster::comm::mpi_message(muster_status));           \
  } while (false)
