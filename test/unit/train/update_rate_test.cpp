// The rate of asynchronous updates, by hand.
#include "train/update_rate.hpp"

#include <gtest/gtest.h>

namespace muster::train {
namespace {

struct Rates {
  Config config;
  double operator()(std::int64_t version, std::int64_t staleness) const {
    return update_rate(config, optim::Schedule(config.schedule, 100, 10), version, staleness);
  }
};

TEST(UpdateRate, IsTheSchedulesUnlessAskedForMore) {
  Rates rate;
  rate.config.optimizer.lr = 0.5;
  for (std::int64_t staleness : {0, 1, 2, 1000}) EXPECT_EQ(rate(7, staleness), 0.5);
}

TEST(UpdateRate, InverseDividesByAStalenessOfMoreThanOne) {
  Rates rate;
  rate.config.optimizer.lr = 0.5;
  rate.config.parallel.staleness_scaling = "inverse";
  EXPECT_EQ(rate(7, 0), 0.5);
  EXPECT_EQ(rate(7, 1), 0.5);
  EXPECT_EQ(rate(7, 2), 0.25);
  EXPECT_EQ(rate(99, 5), 0.1);
}

/// They have the rate of every batch in them.
TEST(UpdateRate, OfChangesIsOneDividedByTheirStalenessWhereAskedFor) {
  Rates rate;
  rate.config.optimizer.lr = 0.5;
  rate.config.parallel.push_every = 4;
  for (std::int64_t staleness : {0, 1, 2, 1000}) EXPECT_EQ(rate(7, staleness), 1);
  rate.config.parallel.staleness_scaling = "inverse";
  EXPECT_EQ(rate(7, 1), 1);
  EXPECT_EQ(rate(7, 4), 0.25);
}

}  // namespace
}  // namespace muster::train
