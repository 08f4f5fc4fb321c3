// The message of the Error that something must throw, for tests of messages.
#pragma once

#include <muster/base/error.hpp>

#include <functional>
#include <string>

namespace muster::test {

/// "no error" where none is thrown.
inline std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace muster::test
