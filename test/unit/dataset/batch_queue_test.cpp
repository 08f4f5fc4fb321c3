// The prefetch queue: order, cut over ranks, tails, ends, failures.
#include "unit/dataset/fake_dataset.hpp"

#include <gtest/gtest.h>

#include <muster/dataset/batch_queue.hpp>

#include <algorithm>
#include <cmath>

namespace muster::dataset::test {
namespace {

QueueOptions options_for(int ranks, int rank, std::int64_t batch, std::int64_t samples) {
  QueueOptions options;
  options.seed = 4;
  options.batch = batch;
  options.last_sample = samples;
  options.rows_of = [=](std::int64_t rows) { return Range{rows * rank / ranks, rows * (rank + 1) / ranks}; };
  return options;
}

std::vector<std::int64_t> all_indices(QueueOptions options, std::int64_t size) {
  BatchQueue queue(std::make_unique<FakeDataset>(size, Shape{2}), std::move(options));
  std::vector<std::int64_t> indices;
  while (const Batch* batch = queue.next()) {
    EXPECT_EQ(static_cast<std::int64_t>(batch->indices.size()), batch->rows.size());
    for (std::size_t i = 0; i < batch->indices.size(); ++i) {
      EXPECT_EQ(batch->inputs[2 * i], static_cast<float>(100 * batch->indices[i]));
      EXPECT_EQ(batch->inputs[2 * i + 1], static_cast<float>(100 * batch->indices[i] + 1));
      EXPECT_EQ(static_cast<const std::int32_t*>(batch->targets)[i], batch->indices[i] % 3);
    }
    indices.insert(indices.end(), batch->indices.begin(), batch->indices.end());
  }
  EXPECT_EQ(queue.next(), nullptr);  // stays at the end
  return indices;
}

TEST(BatchQueue, EverySampleOncePerEpochOverAnyNumberOfRanks) {
  for (int ranks : {1, 2, 3, 5}) {
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto part = all_indices(options_for(ranks, rank, 7, 2 * 23), 23);
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end());
    ASSERT_EQ(all.size(), 46u);
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(all[i], static_cast<std::int64_t>(i / 2)) << ranks << " ranks";
  }
}

TEST(BatchQueue, ResumesInTheMiddleOfAnEpoch) {
  const auto whole = all_indices(options_for(1, 0, 4, 30), 10);
  QueueOptions later = options_for(1, 0, 4, 30);
  later.first_sample = 14;
  EXPECT_EQ(all_indices(later, 10), std::vector<std::int64_t>(whole.begin() + 14, whole.end()));
}

TEST(BatchQueue, EvaluationGoesInIndexOrder) {
  QueueOptions options = options_for(1, 0, 4, 10);
  options.is_training = false;
  EXPECT_EQ(all_indices(options, 10), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(BatchQueue, ARankWithoutRowsStillSeesEveryBatch) {
  QueueOptions options = options_for(4, 0, 2, 8);  // rows 0..0 of two
  BatchQueue queue(std::make_unique<FakeDataset>(8, Shape{1}), options);
  int batches = 0;
  while (const Batch* batch = queue.next()) {
    EXPECT_TRUE(batch->rows.empty());
    EXPECT_EQ(batch->position.rows, 2);
    ++batches;
  }
  EXPECT_EQ(batches, 4);
}

TEST(BatchQueue, ReadsOnlyWhatIsAskedFor) {
  for (const bool is_first : {true, false})
    for (const bool is_last : {true, false}) {
      QueueOptions options = options_for(1, 0, 4, 8);
      options.is_training = false;
      options.reads_inputs = is_first;
      options.reads_targets = is_last;
      BatchQueue queue(std::make_unique<FakeDataset>(8, Shape{2}), options);
      queue.next();
      const Batch* batch = queue.next();
      ASSERT_NE(batch, nullptr);
      EXPECT_EQ(batch->rows.size(), 4);
      EXPECT_EQ(batch->indices, (std::vector<std::int64_t>{4, 5, 6, 7}));
      ASSERT_EQ(batch->inputs != nullptr, is_first);
      ASSERT_EQ(batch->targets != nullptr, is_last);
      if (is_first) {
        EXPECT_EQ(batch->inputs[3], 501);
      }
      if (is_last) {
        EXPECT_EQ(static_cast<const std::int32_t*>(batch->targets)[1], 2);
      }
    }
}

TEST(BatchQueue, AFailureInTheThreadComesOutOfNextAfterTheGoodBatches) {
  auto data = std::make_unique<FakeDataset>(8, Shape{1});
  data->fails_at = 5;
  QueueOptions options = options_for(1, 0, 2, 8);
  options.is_training = false;
  BatchQueue queue(std::move(data), options);
  EXPECT_NE(queue.next(), nullptr);
  EXPECT_NE(queue.next(), nullptr);
  try {
    queue.next();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_STREQ(error.what(), "sample 5 cannot be read");
  }
}

TEST(BatchQueue, NaNIsNamedUnlessTheCheckIsOff) {
  for (const bool is_checked : {true, false}) {
    auto data = std::make_unique<FakeDataset>(6, Shape{3});
    data->nan_at = 4;
    QueueOptions options = options_for(1, 0, 6, 6);
    options.is_training = false;
    options.check_finite = is_checked;
    BatchQueue queue(std::move(data), options);
    if (!is_checked) {
      const Batch* batch = queue.next();
      ASSERT_NE(batch, nullptr);
      EXPECT_TRUE(std::isnan(batch->inputs[12]));
      continue;
    }
    try {
      queue.next();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("sample 4 holds nan (as float32) at element 0"), std::string::npos)
          << error.what();
    }
  }
}

TEST(BatchQueue, MayBeDroppedWhileTheThreadIsBusy) {
  for (int round = 0; round < 20; ++round) {
    BatchQueue queue(std::make_unique<FakeDataset>(1000, Shape{100}), options_for(1, 0, 10, 100000));
    if (round % 2 == 0) queue.next();
  }
}

}  // namespace
}  // namespace muster::dataset::test
