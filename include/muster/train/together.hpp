// Doing something that may fail on some ranks only, so that all ranks agree on the outcome: either everybody goes on or
// everybody throws, the same exit code, one message. For start-up and other places outside the step.
#pragma once

#include <muster/base/error.hpp>
#include <muster/comm/communicator.hpp>

#include <functional>
#include <string>

namespace muster::train {

/// An Error that all ranks throw at the same place, so that the job can end in order instead of by abort.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// Runs `action` on every rank. If any rank's throws an Error, all ranks throw an AgreedError: rank 0 the message (of
/// the lowest failing rank, prefixed with its number in the job unless all failed alike), the others an AgreedError of
/// the same code with an empty message, which main does not print.
void together(comm::Communicator& world, const std::string& what, const std::function<void()>& action);

}  // namespace muster::train
