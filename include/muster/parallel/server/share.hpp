// A worker's share of a batch as the training step sees it: the sums that the step asks for, made through the servers.
// The gradient goes into this worker's slots while the backward pass goes on and is added there; statistics are
// exchanged with the other workers of the round through the coordinator's window. Both throw VoidTask where the round
// is given up. One share of one is a batch of a lease.
#pragma once

#include <muster/parallel/data/reducer.hpp>
#include <muster/parallel/server/client.hpp>

#include <functional>
#include <memory>

namespace muster::parallel {

/// elements: of the gradient arena; those from `parameters` on stay with this worker, result() has its own sums of
/// them. The gradient itself is in result() only where the share is the whole batch. Owns nothing of what it is given.
std::unique_ptr<GradientReducer> make_share_reducer(ServerClient& client, const GrainPlan& plan, std::int64_t elements,
                                                    std::int64_t parameters);
std::unique_ptr<StatisticSum> make_share_statistics(ServerClient& client, const GrainPlan& plan,
                                                    std::int64_t max_width);

/// The most subtrees that a share can consist of, for 1 ... workers shares with grains_of(n) leaves.
int most_subtrees(int workers, const std::function<std::int64_t(int)>& grains_of);

}  // namespace muster::parallel
