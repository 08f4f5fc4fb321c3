// What a test under mpirun needs: the rank counts of its suite, and a communicator. The verdict is collective: a test
// passes only where it passed on every rank, and rank 0 prints what failed elsewhere (main.cpp). All ranks run the same
// tests in the same order; a rank that leaves a test early makes the others meet their deadline, never hang.
//
//   MUSTER_RANKS(Broadcast, 1, 2, 3, 4);            // a suite without this line is an error, not a skip
//   TEST(Broadcast, ReachesEveryRank) { auto world = muster::test::world(); ... }
#pragma once

#include <muster/comm/session.hpp>

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>

namespace muster::test {

/// The one session of the binary.
comm::Session& session();

/// A new communicator over all ranks, of this test alone: messages a failed test left behind cannot reach the next one.
/// Collective.
std::unique_ptr<comm::Communicator> world();

/// Registers the counts of a suite; also covers its TYPED_TEST and TEST_P forms ("Prefix/Suite", "Suite/0").
struct DeclareRanks {
  DeclareRanks(const char* suite, std::initializer_list<int> counts);
};

}  // namespace muster::test

/// The rank counts under which a suite runs. 1 to 4 are always tried; any other count stated here is run too.
#define MUSTER_RANKS(suite, ...) static const ::muster::test::DeclareRanks muster_ranks_##suite(#suite, {__VA_ARGS__})
