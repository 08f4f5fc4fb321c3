// Errors: the code, the parts of a message, the context that a session adds.
#include <muster/base/check.hpp>
#include <muster/base/error.hpp>

#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

template <class Action>
Error caught(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {ExitCode::done, ""};
}

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "no '" << (part) << "' in: " << (text)

/// The context is the process's: every test leaves it as the others expect it.
class ErrorTest : public testing::Test {
 protected:
  void TearDown() override { set_error_step(-1); }
};

TEST_F(ErrorTest, ExitCodesAreStable) {
  EXPECT_EQ(static_cast<int>(ExitCode::done), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::usage), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::data), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::launch), 4);
  EXPECT_EQ(static_cast<int>(ExitCode::device), 5);
  EXPECT_EQ(static_cast<int>(ExitCode::comm), 6);
  EXPECT_EQ(static_cast<int>(ExitCode::diverged), 7);
  EXPECT_EQ(static_cast<int>(ExitCode::checkpoint), 8);
  EXPECT_EQ(static_cast<int>(ExitCode::internal), 70);
  EXPECT_EQ(static_cast<int>(ExitCode::requeue), 75);
}

TEST_F(ErrorTest, FailFormatsAndCarriesTheCode) {
  const Error error = caught([] { fail(ExitCode::data, "{} samples, expected {}", 3, 4); });
  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_STREQ(error.what(), "3 samples, expected 4");
}

TEST_F(ErrorTest, ALibraryFailureNamesEverything) {
  const Error error =
      caught([] { fail_library(ExitCode::comm, "Open MPI", "MPI_Send(...)", 15, "message truncated"); });
  EXPECT_EQ(error.code(), ExitCode::comm);
  EXPECT_CONTAINS(error.what(), "Open MPI: MPI_Send(...) failed with status 15 (message truncated)");
  EXPECT_CONTAINS(error.what(), "error_test.cpp:");
}

TEST_F(ErrorTest, TheContextOfTheSessionIsAdded) {
  set_error_context(2, 4, "node7");
  EXPECT_EQ(error_context(), "rank 2 of 4 on node7");
  set_error_step(120);
  EXPECT_EQ(error_context(), "rank 2 of 4 on node7, step 120");
  const Error error = caught([] { fail_library(ExitCode::data, "HDF5", "H5Dread", -1, "no space"); });
  EXPECT_CONTAINS(error.what(), "rank 2 of 4 on node7, step 120");
}

TEST_F(ErrorTest, AFailedCheckShowsExpressionAndOperands) {
  const int rows = 3, columns = 4;
  const Error error = caught([&] { MUSTER_CHECK(rows == columns, "{} rows, {} columns", rows, columns); });
  EXPECT_EQ(error.code(), ExitCode::internal);
  EXPECT_CONTAINS(error.what(), "rows == columns");
  EXPECT_CONTAINS(error.what(), "3 rows, 4 columns");
  EXPECT_CONTAINS(error.what(), "error_test.cpp:");
}

TEST_F(ErrorTest, CheckEqShowsBothValuesAndEvaluatesOnce) {
  int calls = 0;
  const auto next = [&] { return ++calls; };
  const Error error = caught([&] { MUSTER_CHECK_EQ(next(), 5); });
  EXPECT_EQ(calls, 1);
  EXPECT_CONTAINS(error.what(), "next() == 5");
  EXPECT_CONTAINS(error.what(), "1 != 5");
}

TEST_F(ErrorTest, ACheckThatHoldsIsSilent) {
  EXPECT_NO_THROW(MUSTER_CHECK(1 + 1 == 2, "arithmetic"));
  EXPECT_NO_THROW(MUSTER_CHECK_EQ(2, 2));
}

}  // namespace
}  // namespace muster
